"""Analyses of trained models: errors, attention metrics, explanations, diagnoses, and comparisons
of several models."""
