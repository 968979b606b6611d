"""Every metric, log field and trace attribute, each in one place."""
