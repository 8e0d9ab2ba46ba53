"""The wire format between the agent and upshift: one JSONL file per process, schema in the first line.

Shared by both sides, so stdlib only and Python 3.8 syntax. Times are seconds; `mono` is
`time.perf_counter()` (one clock for all processes of a machine), `wall` is `time.time()`.

    header   schema, pid, ppid, argv, python, prefix, wall, mono        first line of every file
    torch    version                                                    torch was imported
    armed    seconds                                                    the probes are in place
    active   rank, world_size, torch                                    first backward or optimizer step
    steps    rows: groups of optimizer steps since the last such event, see STEP_FIELDS
    gpu      index, phases: the same from CUDA events, later               only on CUDA
    samples  counts of sampled stacks since the last such event
    modules  rows: see MODULE_FIELDS; micro_steps, backwards, forward, backward, recomputed: sums so far
    loader   an iterator of a DataLoader was made: how the loader is set up, seconds it took
    fetched  batches, samples, getting, cpu, queued, collate: batches made since the last such event, seconds
    facts    threads, matmul_precision
    compiled graphs, breaks, seconds, steps, reasons: what torch.compile has done so far
    syncs    rows of name, line, calls, seconds: reads of GPU results by the host, so far
    witness_model  what an optimizer trains: names and shapes, sketch of the start   upshift verify
    witness  one optimizer step: samples, labels, losses, gradient and update sketched, see probes/witness
    settings flags, files: what set the run up, see settings.py          upshift tune
    draws    what, generators: the data pipeline draws random numbers
    loss_site  function, where: a line of the user's that takes a loss, or calls backward
    trainer  model, accepts_loss_kwargs: an HF Trainer
    turn     seconds: of the steps of one turn, after which the process sleeps   a race
    lever_failed  lever, error: the trial is void
    trace    marks, modules, names: some steps mark by mark (profile --trace)
    experiments_begin  step: the first that is no measurement any more
    experiment         name, result, error: see experiments/
    experiments_end
    cost     the agent's own work so far: marks made, seconds spent sending and sampling
    too_old  version, oldest                                            this torch cannot be watched
    probe_failed  probe, error                                          training went on without it
    end      why                                                        the process is leaving

Every line but the first carries `seq`, counted per file, and the count of lines `dropped` so far.
"""

SCHEMA = "upshift.events/1"

# Phases are small integers in the agent (list indices) and names outside it.
OTHER, DATA, H2D, FORWARD, LOSS, BACKWARD, OPTIMIZER, LOGGING, CHECKPOINT = range(9)
PHASES = (
    "other",
    "data_wait",
    "host_to_device",
    "forward",
    "loss",
    "backward",
    "optimizer",
    "logging",
    "checkpoint",
)

# A window is a stretch of forwards that train nothing: under no_grad, or between eval() and train().
NO_WINDOW, NOGRAD_WINDOW, EVAL_WINDOW = range(3)

STEP_FIELDS = (
    "index",  # of this step group, from 0; group 0 began before the agent was watching
    "end",  # mono at the end of the group's last optimizer step
    "phases",  # seconds by phase since the previous group's end, outside windows
    "nograd",  # the same vector for no_grad windows, or None
    "evaluates",  # those windows look like an evaluation: eval mode, or batches of a DataLoader
    "eval",  # seconds inside eval() ... train() windows
    "optimizers",  # ids of the optimizers that stepped, in order; "manual" where none exists
    "micro",  # one row per micro-step, see MICRO_FIELDS
    "skipped",  # GradScaler found infs and skipped the update
    "device",  # type of the device the model's inputs were on
)
MICRO_FIELDS = (
    "batch",  # samples in the first call of the model, None if no tensor says
    "total",  # samples summed over all calls of that model before the backward
    "calls",  # how many such calls
    "loaded",  # samples the DataLoader delivered since the previous micro-step, None without one
    "fetches",  # batches it delivered
    "tokens",  # integer ids that reached the model, None if there were none
    "padded",  # how many of them were padding, None if not measured
    "length",  # of the sequences as padded, None without ids
    "longest",  # without its padding, None if not measured
    "inside",  # True if the backward ran inside optimizer.step (a closure)
)
MODULE_FIELDS = (
    "name",  # class of the model called from outside, then the path inside it
    "kind",  # class
    "where",  # file:line of a forward that the user wrote, or None
    "parameters",
    "calls",  # in the micro-steps looked at closely
    "forward",  # seconds, with the modules inside
    "own",  # seconds, without them
    "backward",  # seconds, without them; None where it cannot be had
    "frozen",  # for modules without trainable parameters: "constant", or why the output is not
)
