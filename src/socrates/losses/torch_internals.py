"""What only private names of torch can do, which another version may not have.

Most ask what torch is doing right now. Where such a name is missing, the losses take the plain
path: ordinary autograd and a new tensor for each gradient. That is slower, and a recomputation by
`torch.utils.checkpoint` is then not recognized, so it moves the adaptive targets a second time.
"""

from collections.abc import Callable
from datetime import timedelta
from operator import attrgetter
from typing import Any, cast

import torch
from torch import Tensor


def _private(name: str) -> Callable[..., Any] | None:
    """Return a private function of torch, None where this version has no such name."""
    try:
        return cast(Callable[..., Any], attrgetter(name)(torch))
    except AttributeError:
        return None


_transforms_active = _private("_C._are_functorch_transforms_active")
_is_wrapped = _private("_C._functorch.is_functorch_wrapped_tensor")
_graph_task = _private("_C._current_graph_task_id")
_graph_is_kept = _private("_C._autograd._get_current_graph_task_keep_graph")
_is_batched = _private("_C._functorch.is_legacy_batchedtensor")
_is_tracing = _private("jit.is_tracing")
_set_timeout = _private("distributed.distributed_c10d._set_pg_timeout")


def is_transformed() -> bool:
    """Return whether torch.func (grad, vmap, ...) is known to be at work."""
    return _transforms_active is not None and bool(_transforms_active())


def may_be_transformed() -> bool:
    """Return whether torch.func is at work, or whether that cannot be known."""
    return _transforms_active is None or bool(_transforms_active())


def is_wrapped(values: Tensor) -> bool:
    """Return whether a tensor belongs to torch.func, which then lets it be written."""
    return _is_wrapped is None or bool(_is_wrapped(values))


def in_backward() -> bool:
    """Return whether a backward pass is under way, as when a checkpoint is recomputed."""
    return _graph_task is not None and _graph_task() != -1


def is_on_host(values: Tensor) -> bool:
    """Return whether values can be read at no cost.

    That is so for a plain tensor on the CPU that nothing traces, compiles or transforms.
    """
    if not values.is_cpu or type(values) is not Tensor:
        return False
    is_followed = torch.compiler.is_compiling() or _is_tracing is None or _is_tracing()
    return not (is_followed or may_be_transformed())


def is_last_reader(grad: Tensor) -> bool:
    """Return whether nothing reads the saved tensors after this backward pass.

    Without `retain_graph`, a transform or the compiler, the gradient may be written over them.
    """
    if _graph_is_kept is None or _is_batched is None or may_be_transformed():
        return False
    return not (torch.compiler.is_compiling() or _graph_is_kept() or _is_batched(grad))


def set_timeout_of_ranks(timeout: timedelta) -> None:
    """Set how long a rank waits for the others in the default group, if torch can change that."""
    if _set_timeout is not None:
        _set_timeout(timeout, torch.distributed.group.WORLD)
