"""The trackers that come with pytest-vla."""

from pytest_vla.entries import TrackerEntry


def pytest_vla_trackers() -> list[TrackerEntry]:
    """Return the entries of the built-in trackers; each has an extra with its name."""
    at = "pytest_vla.track"
    return [
        TrackerEntry("mlflow", "MLflow, by MLFLOW_TRACKING_URI", f"{at}.mlflow:begin", module="mlflow"),
        TrackerEntry(
            "tensorboard",
            "TensorBoard, in the run's folder",
            f"{at}.tensorboard:begin",
            module="tensorboard",
            takes_files=False,
        ),
        TrackerEntry(
            "wandb", "Weights & Biases, by WANDB_MODE and its other variables", f"{at}.wandb:begin", module="wandb"
        ),
    ]
