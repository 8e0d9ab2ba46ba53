import hydra
from loop import train


@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg):
    train(cfg.data.batch_size, cfg.trainer.accumulate_grad_batches)


main()
