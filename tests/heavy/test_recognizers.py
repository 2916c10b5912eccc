"""The recipes of docs/recipes run as they are, on tiny models that are made here and
have heard no speech."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recipes import write_recipe

import nbaudio
from nbaudio.tables.workspace import Workspace

# Sizes of the multilingual Whisper, from which its readers tell that it is multilingual.
WORDS, TIMESTAMPS, TOKENS = 50257, 1501, 51865


@pytest.fixture
def workspace(make_workspace: Any, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    made: Workspace = make_workspace({"a.wav": (8.0, 48000), "b.flac": (5.0, 16000)})
    monkeypatch.chdir(made.path)
    return made


def heard_in_recordings(workspace: Workspace, name: str) -> list[dict[str, Any]]:
    """The words of a recipe in the recordings of a workspace, each with its times in order."""
    audio = workspace.settings["audio"]
    report = nbaudio.recognize(
        audio, with_=f"{name}:transcribe_words", out="heard", show_progress=False
    )
    assert report.problems == []
    assert report.facts["segments_without_word_times"] == 0
    assert report.facts["recordings"] == report.facts["recognized_now"] == 2
    words: list[dict[str, Any]] = []
    for path in sorted(Path("heard").rglob("*.json")):
        hypotheses = json.loads(path.read_text("utf8"))
        spoken = [word for segment in hypotheses["segments"] for word in segment["words"]]
        times = [
            time for word in spoken if "start" in word for time in (word["start"], word["end"])
        ]
        assert all(0 <= time <= hypotheses["duration"] for time in times)
        words += spoken
    assert len(words) == report.facts["words"]
    return words


def recognized(workspace: Workspace, name: str) -> list[str]:
    """The texts of a recipe, which must be there, be equal in a second run, and not depend on the
    batch."""
    assert (
        nbaudio.recognize(workspace, with_=f"{name}:transcribe", show_progress=False).problems == []
    )
    again = nbaudio.recognize(
        workspace, with_=f"{name}:transcribe", as_="again", batch=1, show_progress=False
    )
    assert (again.facts["recognized_now"], again.problems) == (3, [])
    texts: list[str] = workspace.segments[f"asr_text_{name}"].to_list()
    assert workspace.segments["asr_text_again"].to_list() == texts
    assert all(isinstance(text, str) for text in texts)
    return texts


@pytest.fixture(scope="module")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a Whisper of random weights, 16 wide, with a tokenizer of bytes and numbered
    words."""
    import torch
    import transformers
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers.models.whisper.tokenization_whisper import LANGUAGES

    folder = tmp_path_factory.mktemp("models") / "whisper"
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [*letters, *(f"Ġw{number}" for number in range(WORDS - len(letters)))]
    languages = list(LANGUAGES)[:99]
    tasks = ["translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps"]
    times = [f"{number * 0.02:.2f}" for number in range(TIMESTAMPS)]
    special = [f"<|{name}|>" for name in ("endoftext", "startoftranscript", *languages, *tasks)]
    tokenizer = Tokenizer(models.BPE({word: number for number, word in enumerate(words)}, []))
    tokenizer.pre_tokenizer, tokenizer.decoder = (
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoders.ByteLevel(),
    )
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in special])
    tokenizer.add_tokens([AddedToken(f"<|{time}|>", special=False) for time in times])
    assert tokenizer.get_vocab_size() == TOKENS
    end = "<|endoftext|>"
    wrapped = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=end, eos_token=end, unk_token=end, pad_token=end
    )
    wrapped.save_pretrained(folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(
        json.dumps(settings | {"tokenizer_class": "WhisperTokenizer"})
    )
    transformers.WhisperFeatureExtractor(feature_size=80).save_pretrained(folder)

    number = tokenizer.token_to_id
    sizes = {
        f"{side}_{what}": size
        for side in ("encoder", "decoder")
        for what, size in (("layers", 1), ("attention_heads", 2), ("ffn_dim", 16))
    }
    ids = {"bos_token_id": number(end), "eos_token_id": number(end), "pad_token_id": number(end)}
    ids["decoder_start_token_id"] = number("<|startoftranscript|>")
    torch.manual_seed(5)
    model = transformers.WhisperForConditionalGeneration(
        transformers.WhisperConfig(vocab_size=TOKENS, d_model=16, **sizes, **ids)
    )
    model.generation_config = transformers.GenerationConfig(
        **ids,
        max_length=20,
        is_multilingual=True,
        lang_to_id={f"<|{name}|>": number(f"<|{name}|>") for name in languages},
        task_to_id={name: number(f"<|{name}|>") for name in ("translate", "transcribe")},
        no_timestamps_token_id=number("<|notimestamps|>"),
        suppress_tokens=[],
        begin_suppress_tokens=[number(end)],
        alignment_heads=[[0, 0], [0, 1]],
    )
    model.save_pretrained(folder)
    return folder


@pytest.mark.filterwarnings("ignore:std")  # over one attention head
def test_the_transformers_recipe_recognizes_every_segment(
    workspace: Workspace, whisper: Path
) -> None:
    write_recipe(workspace.path, "hugging.py", MODEL=str(whisper))
    assert all(recognized(workspace, "hugging"))
    heard_in_recordings(workspace, "hugging")


def test_the_faster_whisper_recipe_recognizes_every_segment(
    workspace: Workspace, whisper: Path, tmp_path: Path
) -> None:
    from ctranslate2.converters import TransformersConverter

    files = ["tokenizer.json", "preprocessor_config.json"]
    TransformersConverter(str(whisper), copy_files=files).convert(str(tmp_path / "faster"))
    write_recipe(workspace.path, "faster.py", MODEL=str(tmp_path / "faster"))
    assert all(recognized(workspace, "faster"))
    assert heard_in_recordings(workspace, "faster")


def test_the_onnx_asr_recipe_recognizes_segments(workspace: Workspace, tmp_path: Path) -> None:
    """A model that averages 8 frames and takes the best of three random sums over the bands: a, b
    or blank."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights = np.random.default_rng(3).normal(size=(80, 3)).astype(np.float32)
    nodes = [
        helper.make_node(
            "AveragePool", ["audio_signal"], ["pooled"], kernel_shape=[8], strides=[8], ceil_mode=1
        ),
        helper.make_node("Transpose", ["pooled"], ["frames"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["frames", "weights"], ["sums"]),
        helper.make_node("LogSoftmax", ["sums"], ["logprobs"], axis=2),
    ]
    inputs = [
        helper.make_tensor_value_info("audio_signal", TensorProto.FLOAT, ["batch", 80, "time"]),
        helper.make_tensor_value_info("length", TensorProto.INT64, ["batch"]),
    ]
    outputs = [helper.make_tensor_value_info("logprobs", TensorProto.FLOAT, ["batch", "frames", 3])]
    graph = helper.make_graph(
        nodes, "tiny", inputs, outputs, [numpy_helper.from_array(weights, "weights")]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=10)
    onnx.checker.check_model(model)
    folder = tmp_path / "nemo"
    folder.mkdir()
    onnx.save(model, folder / "model.onnx")
    (folder / "vocab.txt").write_text("▁a 0\nb 1\n<blk> 2\n", "utf8")
    (folder / "config.json").write_text(
        json.dumps(
            {"model_type": "nemo-conformer-ctc", "features_size": 80, "subsampling_factor": 8}
        )
    )
    write_recipe(workspace.path, "nemo.py", MODEL=str(folder))
    texts = recognized(workspace, "nemo")
    assert len(set(texts)) > 1
    assert {letter for text in texts for letter in text} <= set("ab ")
    words = heard_in_recordings(workspace, "nemo")
    assert words
    assert all("start" in word for word in words)
