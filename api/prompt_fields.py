"""The fields by which a request chooses its prompt and its truncation, on every route."""

from typing import Literal

from pydantic import BaseModel, Field

from checkpoint.prompts import PromptChoice

Side = Literal["left", "right"]


class PromptFields(BaseModel):
    """Of several names for the same the first given counts."""

    prompt: str | None = None  # the text itself
    prompt_name: str | None = None  # one of the model's prompts
    instruction: str | None = None  # for models that take one
    input_type: str | None = None  # Cohere's, Voyage's and NVIDIA's name for the use
    task: str | None = None  # Jina's
    task_type: str | None = None  # Gemini's
    truncate: bool | Literal["NONE", "START", "END"] | None = None  # a word: Cohere's
    truncation: bool | None = None  # Voyage's name for the same
    truncate_prompt_tokens: int | None = Field(default=None, ge=-1)  # vLLM's; -1: the model's limit
    truncation_direction: Literal["left", "right", "Left", "Right"] | None = None

    def choice(self, header: str | None, of_name: str | None) -> PromptChoice:
        """What the body says; else the header `x-input-type`; else the end of the model's name."""
        return PromptChoice(
            prompt=self.prompt,
            prompt_name=self.prompt_name,
            use=self.input_type or self.task or self.task_type or header or of_name,
            instruction=self.instruction,
        )

    @property
    def asked_truncation(self) -> bool | None:
        """None: the request says nothing."""
        if isinstance(self.truncate, str):
            return self.truncate != "NONE"
        if self.truncate is None and self.truncation is None:
            return None if self.truncate_prompt_tokens is None else True
        return self.truncate if self.truncate is not None else self.truncation

    @property
    def side(self) -> Side:
        """Where an over-long text is cut."""
        if self.truncate == "START":
            return "left"
        return "left" if self.truncation_direction in ("left", "Left") else "right"
