#!/bin/bash
grep -c " ERROR " server.log >answer.txt
