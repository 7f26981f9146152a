"""All templates: {name: (function, weight)}."""
from graphs import templates_compute, templates_control, templates_elementwise, templates_movement

ALL = {**templates_elementwise.TEMPLATES, **templates_movement.TEMPLATES, **templates_compute.TEMPLATES, **templates_control.TEMPLATES}
