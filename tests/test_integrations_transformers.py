"""The Trainer of transformers with our losses: tiny models from a config, the real Trainer."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from socrates.losses import FocalLoss, SocratesLoss
from socrates.metrics import ece, predict
from socrates.scaling import TemperatureScaling

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from socrates.integrations.transformers import (  # noqa: E402
    LOSS_FILE,
    SocratesTrainer,
    calibration_metrics,
    labels_with_unknown,
)

NAMES = ["no", "maybe", "yes"]
SIZES = {
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def tiny_bert(**options):
    torch.manual_seed(0)
    words = {"vocab_size": 20, "max_position_embeddings": 8}
    labels = labels_with_unknown(NAMES)
    config = transformers.BertConfig(**SIZES, **words, **labels, **options)
    return transformers.BertForSequenceClassification(config)


def texts(count=16):
    generator = torch.Generator().manual_seed(1)
    words = torch.randint(1, 20, (count, 5), generator=generator)
    return [
        {"input_ids": row, "labels": int(row[0]) % 3, "text": "not a column of the model"}
        for row in words
    ]


def trainer_of(folder, model=None, data=None, kind=SocratesTrainer, loss=None, **settings):
    usual = {
        "num_train_epochs": 3,
        "per_device_train_batch_size": 8,
        "optim": "sgd",  # Adam would hide a gradient that is too large
        "max_grad_norm": 0.0,
        "learning_rate": 0.5,
        "lr_scheduler_type": "constant",
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
        "dataloader_pin_memory": False,
    }
    args = transformers.TrainingArguments(output_dir=str(folder), **{**usual, **settings})
    model = tiny_bert(**NO_DROPOUT) if model is None else model
    data = texts() if data is None else data
    return kind(model, args, train_dataset=data, eval_dataset=texts(12), loss=loss)


def trained(trainer, **options):
    trainer.train(**options)
    state = trainer.model.state_dict()
    return {name: value.clone() for name, value in state.items()}, trainer.loss.target.clone()


@pytest.mark.parametrize(("batch", "steps"), [(2, 4), (1, 8)])
@pytest.mark.parametrize("remove", [True, False])
def test_accumulation_trains_the_same_weights(tmp_path, batch, steps, remove):
    rows = [{k: v for k, v in row.items() if remove or k != "text"} for row in texts()]
    whole, targets = trained(trainer_of(tmp_path, data=rows))
    parts, others = trained(
        trainer_of(
            tmp_path,
            data=rows,
            per_device_train_batch_size=batch,
            gradient_accumulation_steps=steps,
            remove_unused_columns=remove,
        )
    )
    start = tiny_bert(**NO_DROPOUT).state_dict()
    assert any(not torch.equal(start[name], whole[name]) for name in whole)
    for name in whole:
        torch.testing.assert_close(parts[name], whole[name], atol=1e-6, rtol=0)
    torch.testing.assert_close(others, targets, atol=1e-6, rtol=0)
    assert (targets < 1).all()


def test_a_resumed_run_is_bitwise_the_whole_one(tmp_path):
    settings = {"save_strategy": "steps", "save_steps": 2, "per_device_train_batch_size": 4}
    whole, targets = trained(trainer_of(tmp_path / "a", tiny_bert(), **settings))  # with dropout
    checkpoint = tmp_path / "a" / "checkpoint-6"
    again, others = trained(
        trainer_of(tmp_path / "b", tiny_bert(), **settings), resume_from_checkpoint=str(checkpoint)
    )
    assert all(torch.equal(whole[name], again[name]) for name in whole)
    assert torch.equal(targets, others)
    (checkpoint / LOSS_FILE).unlink()
    with pytest.raises(ValueError, match=LOSS_FILE):
        trainer_of(tmp_path / "c", tiny_bert(), **settings).train(
            resume_from_checkpoint=str(checkpoint)
        )


def test_evaluation_leaves_the_targets_and_measures_calibration(tmp_path):
    trainer = trainer_of(tmp_path, eval_strategy="epoch")
    trainer.train()
    targets = trainer.loss.target.clone()
    values = trainer.evaluate()
    assert torch.equal(trainer.loss.target, targets)
    output = trainer.predict(texts(12))
    expected = ece(predict(output.predictions, "spread"), output.label_ids)
    assert values["eval_ece"] == pytest.approx(expected)
    assert {"eval_accuracy", "eval_ece_floor", "eval_cw_ece", "eval_nll"} <= set(values)


def test_a_loss_without_memory_needs_no_index(tmp_path):
    trainer = trainer_of(tmp_path, loss=FocalLoss(1.0), num_train_epochs=1)
    trainer.train()
    assert trainer.state.global_step == 2


def test_refusals(tmp_path):
    with pytest.raises(ValueError, match="num_samples=16"):
        trainer_of(tmp_path, loss=SocratesLoss(5))
    with pytest.raises(ValueError, match="label_smoothing"):
        trainer_of(tmp_path, label_smoothing_factor=0.1)
    with pytest.raises(ValueError, match="unknown"):
        labels_with_unknown(["a", "unknown"])
    with pytest.raises(ValueError, match="all 2 labels are 2"):
        calibration_metrics(2)((np.zeros((2, 3)), np.array([2, 2])))


def test_a_folded_scaler_is_in_what_from_pretrained_reads(tmp_path):
    trainer = trainer_of(tmp_path)
    trainer.train()
    logits = torch.tensor(trainer.predict(texts(12)).predictions)
    labels = torch.tensor([row["labels"] for row in texts(12)])
    scaler = TemperatureScaling().fit(logits, labels, unknown_class=True)
    trainer.model.classifier = scaler.fold(trainer.model.classifier)
    trainer.model.save_pretrained(tmp_path / "model")
    kind = transformers.AutoModelForSequenceClassification
    model = kind.from_pretrained(tmp_path / "model").eval()
    assert model.config.id2label[3] == "unknown"
    ids = torch.stack([row["input_ids"] for row in texts(12)])
    with torch.no_grad():
        torch.testing.assert_close(model(ids).logits, scaler(logits), atol=1e-5, rtol=1e-5)
    assert not list(Path(tmp_path / "model").glob(LOSS_FILE))
    shutil.rmtree(tmp_path / "model")


def test_a_tiny_vit_trains_with_targets(tmp_path):
    sizes = {"image_size": 8, "patch_size": 4, "num_channels": 1}
    labels = labels_with_unknown(NAMES)
    config = transformers.ViTConfig(**SIZES, **sizes, **labels)
    model = transformers.ViTForImageClassification(config)
    images = [{"pixel_values": torch.randn(1, 8, 8), "labels": k % 3} for k in range(8)]
    trainer = trainer_of(tmp_path, model, images, num_train_epochs=1)
    trainer.train()
    assert len(trainer.loss.unvisited()) == 0
