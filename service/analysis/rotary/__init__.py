"""Rotary tables told by their numbers: layouts, rules, positions."""
