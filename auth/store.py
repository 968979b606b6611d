"""The keys in SQL: the one place where they last."""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from sqlalchemy import Connection, func, insert, select, true, update
from sqlalchemy.ext.asyncio import AsyncConnection

from auth.audit import (
    CLI,
    Action,
    AuditEntry,
    Change,
    is_written,
    project_target,
    read_audit,
    read_last,
    settings_of,
    write_audit,
)
from auth.database import Database
from auth.errors import KeyRefused, UnknownProject
from auth.key import generate_key
from auth.migrate import check, create, upgrade
from auth.pepper import Peppers
from auth.pinned import pin_pepper, read_pinned
from auth.projects import change_limits, ensure_project, read_projects
from auth.record import LATEST, KeyRecord, Limits, NewKey, Rotation
from auth.revision import raise_revision, read_revision
from auth.rows import behind, read_key, read_keys, row_of, touch, unknown_key
from auth.schema import keys
from auth.snapshot import EMPTY, Snapshot


class KeyStore:
    """Keys, projects and the fingerprints of peppers; many processes may share one database.

    Everything that reads takes an SQLite file that does not exist for an empty store and leaves it
    so: only `migrate` and `prepare` make one. All methods raise `StoreUnavailable` when the
    database fails. `actor` is who the audit log says made a change: the key id of an administrator,
    or "cli".
    """

    def __init__(self, database_url: str, *, now: Callable[[], float] = time.time) -> None:
        self._database = Database(database_url)
        self._now = now

    def exists(self) -> bool:
        """False for an SQLite file that is not there; a database server is taken to exist."""
        return self._database.exists()

    async def migrate(self) -> None:
        """Make the database if need be, and bring its schema to the newest revision.

        Raises `SchemaNewer`.
        """
        await self._fill(upgrade)

    async def prepare(self) -> None:
        """Make the database if need be, and its tables where there are none.

        Raises `SchemaOutdated` and `SchemaNewer`.
        """
        await self._fill(create)

    async def check_schema(self) -> None:
        """Raises `SchemaOutdated` or `SchemaNewer` unless this program knows the schema."""
        if self.exists():
            async with self._database.read() as connection:
                await connection.run_sync(check)

    async def create(self, new: NewKey, using: Peppers, actor: str = CLI) -> tuple[str, KeyRecord]:
        """Make a key. Returns its text, which is kept nowhere, and its row.

        A project named for the first time is made, without limits. Raises `KeyRefused`, and
        `PepperMismatch` when older keys were made with another pepper of the same version.
        """
        new.check(self._now())
        key, record = self._make(new, using)
        async with self._database.write() as connection:
            revision = await raise_revision(connection)
            if new.project is not None:
                await ensure_project(connection, new.project, record.created_at)
            await self._insert(connection, record, using, revision)
            change = self._change(actor, "create", record.kid, settings_of(record))
            await write_audit(connection, change)
        return key, record

    async def rotate(
        self, kid: str, using: Peppers, terms: Rotation, actor: str = CLI
    ) -> tuple[str, KeyRecord]:
        """Make a key with the settings of this one, which expires after the grace at the latest.

        Returns the text of the new key, which is kept nowhere, and its row. Raises `UnknownKey`,
        `PepperMismatch` as `create` does, and `KeyRefused` for a key that is dead or has been
        rotated: its own expiry is then the end of its grace.
        """
        self._must_exist(kid)
        terms.check()
        async with self._database.write() as connection:
            revision = await raise_revision(connection)
            old = await read_key(connection, kid)
            if not old.active(self._now()):
                raise KeyRefused(f"key {kid} is revoked or has expired: create another")
            after = await read_keys(connection, keys.c.replaces == kid)
            if after:
                raise KeyRefused(f"key {kid} has been rotated, to {after[0].kid}: rotate that one")
            settings = NewKey(**{f.name: getattr(old, f.name) for f in fields(NewKey)})
            settings = replace(settings, expires_at=terms.expiry(old, self._now()))
            key, record = self._make(settings, using)
            record = replace(record, replaces=kid)
            await self._insert(connection, record, using, revision)
            expires_at = min(int(self._now() + terms.grace_s), old.expires_at or LATEST)
            await connection.execute(
                update(keys)
                .where(keys.c.kid == kid)
                .values(expires_at=expires_at, revision=revision)
            )
            detail = {"replaced_by": record.kid, "expires_at": expires_at}
            await write_audit(connection, self._change(actor, "rotate", kid, detail))
        return key, record

    async def revoke(self, kid: str, actor: str = CLI) -> KeyRecord:
        """Refuse the key from now on; again and again is once. Raises `UnknownKey`."""
        self._must_exist(kid)
        async with self._database.write() as connection:
            revision = await raise_revision(connection)
            record = await read_key(connection, kid)
            if record.revoked_at is None:
                record = replace(record, revoked_at=int(self._now()))
                await connection.execute(
                    update(keys)
                    .where(keys.c.kid == kid)
                    .values(revoked_at=record.revoked_at, revision=revision)
                )
                await write_audit(connection, self._change(actor, "revoke", kid, {}))
        return record

    async def set_limits(
        self, kid: str, changes: Mapping[str, int | float | None], actor: str = CLI
    ) -> KeyRecord:
        """Change these fields of the key's `Limits`; None lifts one.

        Raises `UnknownKey` and `KeyRefused`.
        """
        self._must_exist(kid)
        async with self._database.write() as connection:
            revision = await raise_revision(connection)
            record = await read_key(connection, kid)
            record = replace(record, limits=record.limits.changed(changes))
            await connection.execute(
                update(keys)
                .where(keys.c.kid == kid)
                .values(**asdict(record.limits), revision=revision)
            )
            await write_audit(connection, self._change(actor, "limits", kid, changes))
        return record

    async def set_project_limits(
        self, name: str, changes: Mapping[str, int | float | None], actor: str = CLI
    ) -> Limits:
        """Change these fields of the project's `Limits`; None lifts one. Returns them all.

        Raises `UnknownProject` and `KeyRefused`.
        """
        if not self.exists():
            raise UnknownProject(f"no project {name!r}")
        async with self._database.write() as connection:
            await raise_revision(connection)
            limits = await change_limits(connection, name, changes)
            change = self._change(actor, "limits", project_target(name), changes)
            await write_audit(connection, change)
        return limits

    async def touch(self, last_used: Mapping[str, int]) -> None:
        """Keep when keys were last used, by key id, in seconds since 1970."""
        if self.exists():
            async with self._database.write() as connection:
                await touch(connection, last_used)

    async def get(self, kid: str) -> KeyRecord:
        """Raises `UnknownKey`."""
        self._must_exist(kid)
        async with self._database.read() as connection:
            return await read_key(connection, kid)

    async def projects(self) -> dict[str, Limits]:
        """The limits of each project, by name."""
        if not self.exists():
            return {}
        async with self._database.read() as connection:
            return await read_projects(connection)

    async def audit_log(self, limit: int = 100, before_id: int | None = None) -> list[AuditEntry]:
        """The newest changes first; of those before an entry where `before_id` is given."""
        if not self.exists():
            return []
        async with self._database.read() as connection:
            return await read_audit(connection, limit, before_id)

    async def page(self, most: int, after: str | None = None) -> tuple[list[KeyRecord], bool]:
        """The oldest keys, or those behind the one of this id, and whether there are more.

        Raises `UnknownKey`.
        """
        if not self.exists():
            return [], False
        async with self._database.read() as connection:
            which = true() if after is None else behind(await read_key(connection, after))
            records = await read_keys(connection, which, most + 1)
            return records[:most], len(records) > most

    async def list(self) -> list[KeyRecord]:
        """All keys, the oldest first."""
        if not self.exists():
            return []
        async with self._database.read() as connection:
            return await read_keys(connection, true())

    async def count(self) -> int:
        """How many keys there are, revoked and expired ones included."""
        if not self.exists():
            return 0
        async with self._database.read() as connection:
            result = await connection.execute(select(func.count()).select_from(keys))
            return result.scalar_one()

    async def revision(self) -> int:
        """Grows with every change of a key or a project."""
        if not self.exists():
            return EMPTY.revision
        async with self._database.read() as connection:
            return await read_revision(connection)

    async def snapshot(self, known: Snapshot = EMPTY) -> Snapshot:
        """All keys and the revision they are of.

        Where `known` is of this database, only what has changed since is read.
        """
        if not self.exists():
            return EMPTY
        async with self._database.read() as connection:
            # First the revision: a change that a weaker isolation lets through is then read again.
            revision = await read_revision(connection)
            last = known.last_change
            if last is None or not await is_written(connection, last):
                known = EMPTY  # of another database, or an older copy was put back
            changed = await read_keys(connection, keys.c.revision > known.revision)
            return Snapshot(
                revision=revision,
                keys={**known.keys, **{record.kid: record for record in changed}},
                projects=await read_projects(connection),
                last_change=await read_last(connection),
                fingerprints=await read_pinned(connection),
            )

    async def close(self) -> None:
        await self._database.close()

    async def _fill(self, fill: Callable[[Connection], None]) -> None:
        if not self.exists():
            self._database.create(fill)
        async with self._database.write() as connection:
            await connection.run_sync(fill)

    def _must_exist(self, kid: str) -> None:
        if not self.exists():
            raise unknown_key(kid)

    def _make(self, new: NewKey, using: Peppers) -> tuple[str, KeyRecord]:
        key, kid = generate_key(new.env)
        record = KeyRecord(
            **{f.name: getattr(new, f.name) for f in fields(NewKey)},
            kid=kid,
            digest=using.digest(key, using.version),
            pv=using.version,
            created_at=int(self._now()),
        )
        return key, record

    def _change(self, actor: str, action: Action, target: str, detail: Mapping[str, Any]) -> Change:
        return Change(
            at=int(self._now()), actor=actor, action=action, target=target, detail=dict(detail)
        )

    async def _insert(
        self, connection: AsyncConnection, record: KeyRecord, using: Peppers, revision: int
    ) -> None:
        fingerprint = using.fingerprint(record.pv)
        await pin_pepper(connection, record.pv, fingerprint, record.created_at)
        await connection.execute(insert(keys).values(**row_of(record), revision=revision))
