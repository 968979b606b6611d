"""What of other packages is called, and in which versions it was read."""

from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parent / "data"

_RAGGED = "flashinfer.prefill:BatchPrefillWithRaggedKVCacheWrapper"


@dataclass(frozen=True)
class Wheel:
    package: str
    version: str
    functions: tuple[str, ...]  # module:function or module:Class.method
    attributes: tuple[str, ...] = ()  # module:Class.attribute, which we set from outside
    exports: tuple[str, ...] = ()  # module:name, which the module has from another
    operators: tuple[str, ...] = ()  # of aten, in the file that torch is generated from
    platforms: tuple[str, ...] = ()  # of whose wheel; empty: there is one for all

    @property
    def data(self) -> Path:
        return DATA / f"{self.package}-{self.version}.json"


FLASHINFER = Wheel(
    package="flashinfer-python",
    version="0.7.4",
    functions=(
        f"{_RAGGED}.__init__",
        f"{_RAGGED}.plan",
        f"{_RAGGED}.run",
        "flashinfer.utils:is_sm90a_supported",
    ),
    attributes=(
        f"{_RAGGED}._int_workspace_buffer",
        f"{_RAGGED}._pin_memory_int_workspace_buffer",
    ),
    exports=("flashinfer:BatchPrefillWithRaggedKVCacheWrapper", "flashinfer:__version__"),
)
FLASH_ATTENTION_4 = Wheel(
    package="flash-attn-4",
    version="4.0.0b36",
    functions=(
        "flash_attn.cute.interface:_flash_attn_fwd",
        "flash_attn.cute.interface:flash_attn_varlen_func",
    ),
)
# The smallest wheel of torch: its Python files are those of all others. Two versions: the oldest
# that is supported and the one that is tested.
TORCH_OLDEST = Wheel(
    package="torch",
    version="2.11.0",
    functions=("torch.nn.attention.varlen:varlen_attn",),
    operators=("_flash_attention_forward",),
    platforms=("macosx_11_0_arm64",),
)
TORCH_TESTED = Wheel(
    package="torch",
    version="2.13.0",
    functions=("torch.nn.attention.varlen:varlen_attn",),
    operators=("_flash_attention_forward", "_flash_attention_forward_no_dropout_inplace"),
    platforms=("macosx_11_0_arm64", "macosx_14_0_arm64"),
)
WHEELS = (FLASHINFER, FLASH_ATTENTION_4, TORCH_OLDEST, TORCH_TESTED)
