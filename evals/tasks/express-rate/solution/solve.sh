#!/bin/bash
sed 's/(4\.9, 12\.5, 0\.0)/(4.9, 14.5, 0.0)/' shop/tariff.py >tariff.new && mv tariff.new shop/tariff.py
