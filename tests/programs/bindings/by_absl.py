from absl import app, flags
from loop import train

FLAGS = flags.FLAGS
flags.DEFINE_integer("batch_size", 2, "samples of a micro-batch")
flags.DEFINE_integer("grad_accum", 8, "micro-batches of a step")


def main(argv):
    train(FLAGS.batch_size, FLAGS.grad_accum)


app.run(main)
