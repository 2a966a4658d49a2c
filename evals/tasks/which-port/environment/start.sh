#!/bin/sh
# Start the service on this machine.
set -a
. ./service.env
set +a
exec python3 server.py --profile "$SERVICE_PROFILE"
