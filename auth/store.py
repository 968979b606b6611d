"""The keys in SQL: the one place where they last."""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import ColumnElement, Row, func, insert, select, true, update
from sqlalchemy.ext.asyncio import AsyncConnection

from auth.database import Database
from auth.errors import PepperMismatch, UnknownKey
from auth.key import generate_key
from auth.migrate import check, upgrade
from auth.pepper import Peppers
from auth.record import KeyRecord, Limits, NewKey
from auth.schema import key_revision, keys, peppers, projects
from auth.snapshot import EMPTY, Snapshot

_LIMITS = tuple(f.name for f in fields(Limits))
_RECORD = [column for column in keys.c if column.name != "revision"]


class KeyStore:
    """Keys, projects and the fingerprints of peppers; many processes may share one database.

    Everything that reads takes an SQLite file that does not exist for an empty store and leaves it
    so: only `migrate` makes one. All methods raise `StoreUnavailable` when the database fails.
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
        if not self.exists():
            self._database.create(upgrade)
        async with self._database.write() as connection:
            await connection.run_sync(upgrade)

    async def check_schema(self) -> None:
        """Raises `SchemaOutdated` or `SchemaNewer` unless this program knows the schema."""
        if self.exists():
            async with self._database.read() as connection:
                await connection.run_sync(check)

    async def create(self, new: NewKey, using: Peppers) -> tuple[str, KeyRecord]:
        """Make a key. Returns its text, which is kept nowhere, and its row.

        A project named for the first time is made, without limits. Raises `KeyRefused`, and
        `PepperMismatch` when older keys were made with another pepper of the same version.
        """
        new.check()
        key, kid = generate_key(new.env)
        version = using.version
        record = KeyRecord(
            **{f.name: getattr(new, f.name) for f in fields(NewKey)},
            kid=kid,
            digest=using.digest(key, version),
            pv=version,
            created_at=int(self._now()),
        )
        async with self._database.write() as connection:
            revision = await _raise_revision(connection)
            await self._pin_pepper(connection, version, using.fingerprint(version))
            if new.project is not None:
                await self._ensure_project(connection, new.project)
            await connection.execute(insert(keys).values(**_row_of(record), revision=revision))
        return key, record

    async def revoke(self, kid: str) -> KeyRecord:
        """Refuse the key from now on; again and again is once. Raises `UnknownKey`."""
        if not self.exists():
            raise UnknownKey(f"no key {kid}")
        async with self._database.write() as connection:
            revision = await _raise_revision(connection)
            await connection.execute(
                update(keys)
                .where(keys.c.kid == kid, keys.c.revoked_at.is_(None))
                .values(revoked_at=int(self._now()), revision=revision)
            )
            found = await _read_keys(connection, keys.c.kid == kid)
            if not found:
                raise UnknownKey(f"no key {kid}")
        return found[0]

    async def list(self) -> list[KeyRecord]:
        """All keys, the oldest first."""
        if not self.exists():
            return []
        async with self._database.read() as connection:
            return await _read_keys(connection, true())

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
            return await _revision(connection)

    async def snapshot(self, known: Snapshot = EMPTY) -> Snapshot:
        """All keys and the revision they are of. Of those in `known` only the changed are read."""
        if not self.exists():
            return EMPTY
        async with self._database.read() as connection:
            # First the revision: a change that a weaker isolation lets through is then read again.
            revision = await _revision(connection)
            if revision < known.revision:  # an older copy of the database was put back
                known = EMPTY
            changed = await _read_keys(connection, keys.c.revision > known.revision)
            pinned = await connection.execute(select(peppers.c.version, peppers.c.fingerprint))
            return Snapshot(
                revision=revision,
                keys={**known.keys, **{record.kid: record for record in changed}},
                fingerprints={row.version: row.fingerprint for row in pinned},
            )

    async def close(self) -> None:
        await self._database.close()

    async def _pin_pepper(
        self, connection: AsyncConnection, version: int, fingerprint: bytes
    ) -> None:
        statement = select(peppers.c.fingerprint).where(peppers.c.version == version)
        known = (await connection.execute(statement)).scalar_one_or_none()
        if known is None:
            await connection.execute(
                insert(peppers).values(
                    version=version, fingerprint=fingerprint, created_at=int(self._now())
                )
            )
        elif known != fingerprint:
            raise PepperMismatch(f"pepper {version} is not the one that the keys were made with")

    async def _ensure_project(self, connection: AsyncConnection, name: str) -> None:
        statement = select(projects.c.name).where(projects.c.name == name)
        if (await connection.execute(statement)).first() is None:
            await connection.execute(
                insert(projects).values(name=name, created_at=int(self._now()))
            )


async def _raise_revision(connection: AsyncConnection) -> int:
    """First in every writing transaction: the row lets one writer in at a time, on any database,
    so that revisions become visible in their order.
    """
    raised = (
        update(key_revision)
        .values(revision=key_revision.c.revision + 1)
        .returning(key_revision.c.revision)
    )
    revision: int = (await connection.execute(raised)).scalar_one()
    return revision


async def _revision(connection: AsyncConnection) -> int:
    revision: int = (await connection.execute(select(key_revision.c.revision))).scalar_one()
    return revision


async def _read_keys(connection: AsyncConnection, which: ColumnElement[bool]) -> list[KeyRecord]:
    statement = select(*_RECORD).where(which).order_by(keys.c.created_at, keys.c.kid)
    return [_record_of(row) for row in await connection.execute(statement)]


def _row_of(record: KeyRecord) -> dict[str, Any]:
    row: dict[str, Any] = {f.name: getattr(record, f.name) for f in fields(record)}
    row |= asdict(row.pop("limits"))
    row["scopes"] = sorted(record.scopes)
    row["models"] = None if record.models is None else sorted(record.models)
    return row


def _record_of(row: Row[Any]) -> KeyRecord:
    values: Mapping[str, Any] = dict(row._mapping)
    limits = Limits(**{name: values[name] for name in _LIMITS})
    return KeyRecord(
        **{name: value for name, value in values.items() if name not in _LIMITS}
        | {
            "limits": limits,
            "scopes": frozenset(values["scopes"]),
            "models": None if values["models"] is None else frozenset(values["models"]),
        }
    )
