"""First code of upshift inside the user's interpreter: chain the user's own sitecustomize, then arm the agent.

Kept to syntax that any Python 3 parses: unrelated interpreters on the same PYTHONPATH read this file too.
"""

import os
import sys


def _chain():
    """Run the sitecustomize this one shadows, as the interpreter would have done."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.dirname(os.path.abspath(__file__))
    others = [p for p in sys.path if os.path.abspath(p or os.curdir) != here]
    # Other code asking for `sitecustomize` later must get the user's, and find no trace of this folder.
    sys.path[:] = others
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _arm():
    """Load the agent from beside this file; a session that cannot be read leaves the process alone."""
    from importlib.util import module_from_spec, spec_from_file_location

    if "upshift_agent" in sys.modules:  # a .pth file runs twice in a --system-site-packages venv
        return
    package = os.path.join(os.path.dirname(os.path.abspath(__file__)), "upshift_agent")
    spec = spec_from_file_location(
        "upshift_agent",
        os.path.join(package, "__init__.py"),
        submodule_search_locations=[package],
    )
    agent = module_from_spec(spec)
    sys.modules["upshift_agent"] = agent
    spec.loader.exec_module(agent)
    agent.arm(os.environ["UPSHIFT_SESSION"])


if os.environ.get("UPSHIFT_SESSION") and sys.version_info >= (3, 8):
    try:
        _arm()
    except Exception as error:  # the user's program goes on whatever happens to us
        sys.modules.pop("upshift_agent", None)
        if os.environ.get("UPSHIFT_DEBUG"):
            sys.stderr.write("upshift: agent not armed: %r\n" % (error,))
if __name__ == "sitecustomize":
    _chain()
