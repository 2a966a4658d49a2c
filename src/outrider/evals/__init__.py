"""Evals: do agents solve tasks, and does a change help?"""
