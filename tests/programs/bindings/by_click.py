import click
from loop import train


@click.command()
@click.option("--batch-size", default=2)
@click.option("--accum", default=8)
def main(batch_size, accum):
    train(batch_size, accum)


main()
