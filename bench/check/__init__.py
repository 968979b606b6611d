"""The regression gate: ratios measured side by side now, beside those that were committed."""
