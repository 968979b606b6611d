"""Flags over environment over defaults, and nothing that is not known."""

from pathlib import Path

import pytest

from cli.settings import (
    Settings,
    SettingsError,
    flag_of,
    load_settings,
    malloc_is_set,
    variable_of,
)


def test_flag_wins_over_variable_and_variable_over_default() -> None:
    environ = {"FLORILEGE_PORT": "9000", "FLORILEGE_HOST": "::1"}
    settings = load_settings({"port": 9001, "host": None}, environ)
    assert (settings.port, settings.host, settings.admin_port) == (9001, "::1", 8001)


def test_list_is_separated_by_commas_in_a_variable() -> None:
    settings = load_settings({}, {"FLORILEGE_MODEL": "a/b, ./c=short"})
    assert settings.model == ("a/b", "./c=short")


@pytest.mark.parametrize("name", ["FLORILEGE_PROT", "FLORILEGE_", "FLORILEGE_PORT_FILE"])
def test_unknown_variable_stops_the_start_by_its_name(name: str) -> None:
    with pytest.raises(SettingsError, match=f"{name} is not a setting"):
        load_settings({}, {name: "1"})


def test_other_variables_are_nobodys_business() -> None:
    assert load_settings({}, {"PATH": "/bin", "florilege_port": "1"}).port == 8000


def test_secret_may_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "pepper"
    file.write_text("1:secret\n")
    settings = load_settings({}, {"FLORILEGE_PEPPER_FILE": str(file)})
    assert settings.pepper is not None
    assert settings.pepper.get_secret_value() == "1:secret"
    with pytest.raises(SettingsError, match="FLORILEGE_PEPPER_FILE"):
        load_settings({}, {"FLORILEGE_PEPPER_FILE": str(tmp_path / "none")})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", "x"),
        ("port", "70000"),
        ("max_batch_tokens", "0"),
        ("timeout_s", "601"),
        ("max_timeout_s", "601"),
        ("max_timeout_s", "inf"),
        ("dtype", "int4"),
        ("self_test", "maybe"),
        ("matryoshka", "64,128"),
        ("matryoshka", "m=x"),
        ("task", "m=generate"),
        ("task", "score"),
        ("calibration", "=file"),
        ("model", ""),
        ("model", "=alias"),
        ("database_url", "no url"),
        ("redis_url", "http://redis"),
        ("ready_when", "always"),
    ],
)
def test_impossible_value_is_named_by_flag_and_variable(name: str, value: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({}, {variable_of(name): value})
    assert flag_of(name) in str(caught.value)
    assert variable_of(name) in str(caught.value)


@pytest.mark.parametrize("name", ["MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES"])
def test_what_the_operator_says_of_freed_memory_stands(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv("MALLOC_CONF", "of another library")
    assert not malloc_is_set()
    monkeypatch.setenv(name, "1")
    assert malloc_is_set()


def test_port_is_shared_on_linux_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for platform, shared in (("linux", True), ("darwin", False)):
        monkeypatch.setattr("sys.platform", platform)
        if shared:
            assert load_settings({"reuse_port": True}, {}).reuse_port
        else:
            with pytest.raises(SettingsError, match="--reuse-port"):
                load_settings({"reuse_port": True}, {})


def test_impossible_secret_is_not_repeated() -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({}, {"FLORILEGE_DATABASE_URL": "hunter2 is no url"})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("given", [("m=64,128", "o/n=32"), ("m=64", "128", "o/n=32")])
def test_matryoshka_sizes_follow_their_model(given: tuple[str, ...]) -> None:
    settings = load_settings({"matryoshka": given}, {})
    assert settings.of_model(("m",)).matryoshka == (64, 128)
    assert settings.of_model(("full/id", "o/n")).matryoshka == (32,)
    assert settings.of_model(("other",)).matryoshka == ()


def test_setting_of_a_model_that_is_not_served_is_refused() -> None:
    for name, value in [("matryoshka", "m=64"), ("task", "m=score"), ("calibration", "m=x.json")]:
        settings = load_settings({name: (value,)}, {})
        settings.check_models(("m", "other"))
        with pytest.raises(SettingsError, match=flag_of(name)):
            settings.check_models(("other",))


def test_secrets_are_hidden_wherever_settings_are_shown() -> None:
    settings = load_settings(
        {"pepper": "1:hunter2", "database_url": "postgresql+asyncpg://me:hunter2@db/keys"}, {}
    )
    shown = settings.redacted()
    assert "hunter2" not in str(shown) + repr(settings)
    assert shown["database_url"] == "postgresql+asyncpg://me:***@db/keys"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:hunter2@redis:6379/0", "redis://:***@redis:6379/0"),
        ("rediss://me:hunter2@redis/1", "rediss://me:***@redis/1"),
        ("redis+sentinel://me:hunter2@a:1,b:2/main/0", "redis+sentinel://me:***@a:1,b:2/main/0"),
        ("redis://redis:6379/0", "redis://redis:6379/0"),
        ("unix:///run/redis.sock?db=0&password=hunter2", "unix:///run/redis.sock"),
        ("redis://:hun@ter2hunter2@redis:6379/0", "redis://:***@redis:6379/0"),
        ("redis://:%2Fhunter2@redis:6379/0", "redis://:***@redis:6379/0"),
        ("redis://hunter2@redis", "redis://***@redis"),
        ("rediss+sentinel://[::1]:26379,b/main", "rediss+sentinel://[::1]:26379,b/main"),
    ],
)
def test_password_of_redis_is_never_shown(url: str, shown: str) -> None:
    settings = load_settings({"redis_url": url, "redis_password": "hunter2"}, {})
    values = settings.redacted()
    assert values["redis_url"] == shown
    assert "hunter2" not in str(values) + repr(settings)


def test_default_of_a_command_yields_to_the_environment_and_to_flags() -> None:
    def admin_port(flag: int | None, environ: dict[str, str]) -> int:
        return load_settings({"admin_port": flag}, environ, {"admin_port": 8002}).admin_port

    assert admin_port(None, {}) == 8002
    assert admin_port(None, {"FLORILEGE_ADMIN_PORT": "9"}) == 9
    assert admin_port(10, {"FLORILEGE_ADMIN_PORT": "9"}) == 10


def test_data_directory_follows_xdg_and_holds_the_default_store() -> None:
    settings = load_settings({}, {"XDG_DATA_HOME": "/data"})
    assert settings.data_dir == Path("/data/florilege")
    assert settings.database == "sqlite+aiosqlite:////data/florilege/florilege.db"
    assert settings.pepper_path == Path("/data/florilege/pepper")
    assert load_settings({}, {}).data_dir == Path("~/.local/share/florilege").expanduser()


def test_every_setting_is_described() -> None:
    assert all(field.description for field in Settings.model_fields.values())
