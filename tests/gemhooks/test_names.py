"""What ``import gemhooks`` offers."""

import importlib

import pytest

import gemhooks


def test_each_name_that_is_offered_is_there() -> None:
    assert sorted(gemhooks.__all__) == dir(gemhooks)
    for name in gemhooks.__all__:
        assert getattr(gemhooks, name) is getattr(importlib.import_module("gemhooks"), name)


def test_a_name_that_is_not_offered_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Consumer'"):
        gemhooks.__getattr__("Consumer")
