from mercer.models.gp.classes.classifier import (
    SMALL as SMALL,
    GaussianProcessClassifier as GaussianProcessClassifier,
)
from mercer.models.gp.classes.expectations import (
    expected as expected,
    expected_softmax as expected_softmax,
)
from mercer.models.gp.classes.inference import (
    LITTLE as LITTLE,
    PARTS as PARTS,
    choose_scheme as choose_scheme,
)
from mercer.models.gp.classes.sites import as_link as as_link
