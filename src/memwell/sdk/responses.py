"""Types in the signatures of the SDK. `sdk` imports them at their first use."""

from ..admin.admin import Key as Key, NewKey as NewKey, Status as Status, Tenant as Tenant
from ..admin.jobs import Job as Job
from ..admin.tenant_settings import TenantSettingsInfo as TenantSettingsInfo
from ..banks.banks import BankInfo as BankInfo, BankList as BankList
from ..banks.compaction import Compacting as Compacting, Trial as Trial
from ..banks.entries import (
    AddedEntries as AddedEntries,
    DeletedEntries as DeletedEntries,
    Loaded as Loaded,
    Matches as Matches,
)
from ..banks.reading import BankEntry as BankEntry
from ..banks.statistics import BankStats as BankStats, Counted as Counted
from ..context.contexts import Context as Context
from ..context.hook_resolution import Preview as Preview, Resolution as Resolution
from ..context.hooks import DeletedHook as DeletedHook, HookInfo as HookInfo
from ..context.memory_namespace import RenderedText as RenderedText
from ..core.events import Event as Event
from ..core.space import Erasure as Erasure
from ..core.turns import Turn as Turn, Turns as Turns
from ..facts.audit import Audit as Audit
from ..facts.memories import Memory as _Memory, MemoryHistory as MemoryHistory, Revoked as Revoked
from ..facts.plans import Plan as Plan
from ..facts.search import Hit as Hit, Hits as Hits, WhyNot as WhyNot
from ..files.session_files import DeletedFile as DeletedFile, FileInfo as FileInfo
from ..records.apps import (
    AppInfo as AppInfo,
    AppSessionInfo as AppSessionInfo,
    Artifact as Artifact,
    SessionMeta as SessionMeta,
)
from ..records.contents import Content as Content, StoreRecord as StoreRecord
from ..records.definitions import (
    DefinitionInfo as DefinitionInfo,
    DefinitionList as DefinitionList,
    DeletedDefinition as DeletedDefinition,
)
from ..records.records import Mode as Mode, RecordChange as RecordChange
from ..records.stores import DeletedApp as DeletedApp, DeletedStore as DeletedStore, StoreInfo as StoreInfo
from ..records.user_records import DeletedRecord as DeletedRecord, UserRecord as UserRecord
from ..records.apply import Applied as Applied
from ..records.validation import Breaking as Breaking
from ..records.working_memory import (
    Bound as Bound,
    Forgotten as Forgotten,
    MemoryRecord as MemoryRecord,
    Updated as Updated,
)
from ..timelines.agent_log import AgentSession as AgentSession, LogEntry as LogEntry
from ..timelines.flows import Ended as Ended, FlowInfo as FlowInfo, SessionView as SessionView
from ..timelines.sessions import SessionInfo as SessionInfo, Settings as Settings
from ..timelines.transfer import Imported as Imported, Line as Line
from ..timelines.users import Added as Added, UserInfo as UserInfo
from ..workflows.app_sessions import EndedSession as EndedSession
from ..workflows.app_transfer import AppDocument as AppDocument, ImportedApp as ImportedApp
from ..workflows.operations import Checked as Checked, Workflow as Workflow
from ..workflows.run import RunEvent as RunEvent
from ..workflows.run_operations import Executed as Executed, Happened as Happened, Run as Run
from .types import *

MemoryEntry = _Memory
