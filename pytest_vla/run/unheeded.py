"""Options and ini keys of episodes where pytest collects none: a line that says what would run them."""

import shlex

from pytest_vla.run.context import RunContext
from pytest_vla.run.options import OPTIONS


def unheeded(context: RunContext) -> str:
    """Return the warning line; empty if no option asked for episodes, or if another message covers it."""
    selection, config = context.selection, context.config
    if selection.named or selection.settings.model_typed or context.resumption is not None:
        return ""
    typed = [str(argument).partition("=")[0] for argument in config.invocation_params.args]
    # What names episodes is told otherwise, and where records would lie changes nothing of what is run.
    heeded = [option for option in OPTIONS if option.asks or option.belongs == "invocation"]
    flags = [option.flag for option in OPTIONS if option.flag in typed and option not in heeded]
    suites, model = config.getini("vla_suite").strip(), config.getini("vla_model").strip()
    command = shlex.join(["pytest", f"--vla-suite={suites or 'SUITE'}", *([] if model else ["--vla-model=POLICY"])])
    if flags:
        return f"vla: {', '.join(flags)} changed nothing, as no episode was collected: `{command} ...` runs some"
    if suites and model and not selection.paths_given and config.inipath is not None:
        return f"vla: {config.inipath.name} names {suites} and {model}, and neither runs by itself: `{command}` does it"
    return ""
