"""Support vector machines: classes, numbers and one class."""
