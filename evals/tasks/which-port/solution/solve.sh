#!/bin/bash
set -a
. ./service.env
python3 -c 'import os, settings; print(settings.listen_address(os.environ["SERVICE_PROFILE"])[1])' >answer.txt
