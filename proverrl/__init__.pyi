from proverrl.api import (
    Candidate as Candidate,
)
from proverrl.api import (
    Config as Config,
)
from proverrl.api import (
    Problem as Problem,
)
from proverrl.api import (
    Status as Status,
)
from proverrl.api import (
    SyncVerifier as SyncVerifier,
)
from proverrl.api import (
    Verdict as Verdict,
)
from proverrl.api import (
    evaluate as evaluate,
)
from proverrl.api import (
    load_config as load_config,
)
from proverrl.api import (
    load_problems as load_problems,
)
from proverrl.api import (
    load_references as load_references,
)
from proverrl.api import (
    open_verifier as open_verifier,
)
from proverrl.api import (
    train as train,
)
from proverrl.api import (
    verify as verify,
)
from proverrl.version import __version__ as __version__

__all__: list[str]
