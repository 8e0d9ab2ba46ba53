"""The keeper: a small process between upshift and the user's command. `python -I -S keeper SPEC.json`.

It lays the overlay, starts the command, adopts every process that descends from it (also one that daemonised),
and sees to it that all of them are gone when upshift says so, or when upshift itself is gone. Stdlib only.

upshift → keeper, on `control`: one byte, `k` kill all, `t` ask politely first, `p` pause all, `c` let them go on;
end of file means upshift died.
keeper → upshift, on `status`: JSON lines {"event": "isolated" | "refused" | "started" | "exit" | "gone", ...}.
"""

import json
import os
import resource
import select
import signal
import sys
import time

import leftovers
import linux
import overlay
import tree

POLITE_SECONDS = 3.0
POLL_SECONDS = 0.1


class Keeper:
    """Owns the command's process tree from start to the last process's end."""

    def __init__(self, spec):
        self.spec = spec
        self.control = spec["control_fd"]
        self.status = spec["status_fd"]
        self.child = None
        self.exit_sent = False

    def say(self, event, **fields):
        """One line to upshift; nobody listening is no reason to stop."""
        fields["event"] = event
        try:
            os.write(self.status, (json.dumps(fields) + "\n").encode())
        except OSError:
            pass

    def run(self):
        """Isolate, start, keep, end."""
        linux.adopt_orphans()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # upshift decides, through the control pipe
        if self.spec["overlay"]:
            try:
                covered = overlay.lay(self.spec["overlay"])
            except OSError as error:
                self.say("refused", why=str(error))
                return
            self.say("isolated", covered=covered)
        self.start()
        if self.child is not None:
            self.keep()

    def start(self):
        """Fork and exec the command; an exec that fails is reported with its errno."""
        report_r, report_w = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._become_command(report_w)
        os.close(report_w)
        problem = b""
        while True:
            chunk = os.read(report_r, 4096)
            if not chunk:
                break
            problem += chunk
        os.close(report_r)
        if problem:
            os.waitpid(pid, 0)
            self.say("refused", why=problem.decode(), exec=True)
            return
        self.child = pid
        self.say("started", pid=pid)

    def _become_command(self, report_w):
        try:
            os.setsid()
            linux.die_with_parent(signal.SIGKILL)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            if self.spec.get("memory"):
                resource.setrlimit(resource.RLIMIT_DATA, (self.spec["memory"], self.spec["memory"]))
            os.chdir(self.spec["cwd"])
            null = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null, 0)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            for number, name in ((1, "stdout"), (2, "stderr")):
                os.dup2(os.open(self.spec[name], flags, 0o600), number)
            os.execvpe(self.spec["argv"][0], self.spec["argv"], self.spec["env"])
        except OSError as error:
            os.write(report_w, str(error).encode())
        os._exit(127)

    def keep(self):
        """Reap until upshift says stop, dies, or nothing is left."""
        died, wake = os.pipe()
        for end in (died, wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            woken, _, _ = select.select([self.control, died], [], [], POLL_SECONDS)
            if died in woken:
                os.read(died, 4096)
            ready = self.control in woken
            self.reap()
            if ready:
                order = os.read(self.control, 1)
                if order == b"p":
                    tree.pause_all(os.getpid())
                    continue
                tree.signal_all(
                    os.getpid(), signal.SIGCONT
                )  # also before the end: cleaners must be awake for it
                if order == b"c":
                    continue
                if order == b"t":
                    self.ask()
                self.end()
                if not order:  # upshift was killed: nobody else is left to tidy up
                    import shutil

                    overlay.unlock(os.path.join(self.spec["scratch"], "overlay"))
                    shutil.rmtree(self.spec["scratch"], ignore_errors=True)
                return
            if self.exit_sent and self.reap() and not tree.descendants(os.getpid()):
                self.say("gone")
                return

    def reap(self):
        """Collect dead children; tell upshift when the command itself is among them. True: no child is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid == self.child:
                self.exit_sent = True
                code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
                self.say("exit", code=code)

    def ask(self):
        """SIGTERM, and some time to save."""
        tree.signal_all(os.getpid(), signal.SIGTERM)
        deadline = time.monotonic() + POLITE_SECONDS
        while time.monotonic() < deadline and tree.descendants(os.getpid()):
            self.reap()
            time.sleep(0.02)

    def end(self):
        """Kill every descendant, cleaners last, until none is left."""
        paths = leftovers.owned_by(tree.descendants(os.getpid()))
        tree.kill_all(os.getpid(), self.reap)
        leftovers.remove(paths)
        self.say("gone")


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as stream:
        Keeper(json.load(stream)).run()
