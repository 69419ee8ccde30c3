from mercer.models.tables.classifier import TableClassifier as TableClassifier
from mercer.models.tables.regressor import TableRegressor as TableRegressor
