"""What can be wrong with files of data: they are not there, or they are not what they should be."""

from __future__ import annotations


class DataNotFound(FileNotFoundError):
    """A data set's file is neither on the disk nor to be had from its usual source.

    >>> raise DataNotFound("train_32x32.mat is missing: put it into the data folder")
    Traceback (most recent call last):
    socrates.data.errors.DataNotFound: train_32x32.mat is missing: put it into the data folder
    """


class DataCorrupt(ValueError):
    """A file is truncated, damaged or in another format than its name says.

    >>> raise DataCorrupt("data_batch_1.bin: 100 bytes, expected records of 3073 bytes")
    Traceback (most recent call last):
    socrates.data.errors.DataCorrupt: data_batch_1.bin: 100 bytes, expected records of 3073 bytes
    """
