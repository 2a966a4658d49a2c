#!/bin/bash
sort -u guests.txt >sorted.txt
