from mercer.models.gp.classes.classifier import (
    GaussianProcessClassifier as GaussianProcessClassifier,
)
from mercer.models.gp.classes.expectations import (
    expected as expected,
    expected_softmax as expected_softmax,
)
from mercer.models.gp.classes.sites import as_link as as_link
