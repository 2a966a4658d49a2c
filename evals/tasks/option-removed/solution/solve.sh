#!/bin/bash
echo 2.4.0 >answer.txt
