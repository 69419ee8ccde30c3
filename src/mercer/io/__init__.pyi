from mercer.io.modelfile import load as load, save as save
from mercer.io.predictions import (
    parquet_pieces as parquet_pieces,
    write_predictions as write_predictions,
)
from mercer.io.registry import register as register

__all__ = ["load", "register", "save", "write_predictions"]
