"""What no Redis can be at is refused at the start, in a sentence that tells no secret."""

from pathlib import Path

import pytest
from redis_server import RedisServer

from transport.redis.client import RedisJobClient
from transport.redis.connections import Connections, RedisConfig
from transport.redis.consumer import RedisJobConsumer
from transport.redis.errors import UnsupportedRedis
from transport.redis.events import ignore
from transport.redis.url import RedisUrl, parse_redis_url

SECRET = "hunter"


def refusal(config: RedisConfig) -> str:
    with pytest.raises(UnsupportedRedis) as refused:
        Connections(config, ignore)
    return str(refused.value)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("redis://localhost/abc", "number of a database"),
        ("rediss://localhost/1x", "number of a database"),
        ("redis+sentinel://host/mymaster/abc", "number of a database"),
        ("redis+sentinel://host/0", "name of a service"),
        ("redis+sentinel://host", "name of a service"),
        ("redis://localhost/0?no_such_option=1", "an option that is unknown"),
        ("redis://localhost/?db=x", "an option that is unknown"),
        ("redis://localhost:0/0", "not the URL"),
        ("redis+sentinel://a:1,b:x/mymaster", "not the URL"),
        ("unix://", "not the URL"),
        ("redis://localhost/0#piece", "not the URL"),
        ("http://localhost", "not the URL"),
        ("REDIS://localhost/0", "not the URL"),
        (" redis://localhost/0", "not the URL"),
        ("redis:localhost", "not the URL"),
        ("redis://", "not the URL"),
        ("redis://:6379/0", "not the URL"),
        ("redis://a,b/0", "not the URL"),
        ("redis://a b/0", "not the URL"),
        ("redis+sentinel://a:1,/mymaster", "not the URL"),
        ("redis+sentinel://,a:1/mymaster", "not the URL"),
        ("redis+sentinel:///mymaster", "not the URL"),
        ("unix://run/redis.sock", "not the URL"),
        ("redis+sentinel://:a@b:1,:a@c:2/mymaster", "stand once"),
        ("redis+sentinel://host/mymaster?db=3", "none with Sentinel"),
        ("redis+sentinel://host/mymaster?socket_timeout=0.1", "none with Sentinel"),
        ("redis://localhost/1?db=2", "given twice"),
        ("redis://localhost/?db=1&db=2", "given twice"),
        ("redis://:a@localhost/?password=b", "given twice"),
        ("redis://localhost/?db", "an option that is unknown"),
        ("redis://localhost/?db=", "an option that is unknown"),
        ("redis://localhost/?password=", "an option that is unknown"),
        ("redis://localhost/99999999999999999999", "number of a database"),
        ("rediss://localhost/0?ssl_cert_reqs=x", "of no such value"),
        ("redis://localhost/0?ssl_cert_reqs=none", "an option that is unknown"),
        *(
            (f"redis://localhost/0?{option}", "an option that is unknown")
            for option in ("retry=1", "protocol=3", "decode_responses=true", "host=other")
        ),
        ("redis://localhost/0?socket_timeout=0.001", "an option that is unknown"),
    ],
)
def test_url_that_says_nothing_useful_is_refused(url: str, says: str) -> None:
    assert says in refusal(RedisConfig(url))


@pytest.mark.parametrize(
    ("url", "parsed"),
    [
        ("redis://h", RedisUrl("redis", (("h", None),), "", 0)),
        ("rediss://u:p%2F@h:1/2", RedisUrl("rediss", (("h", 1),), "", 2, "u", "p/")),
        ("unix:///run/redis.sock?db=3", RedisUrl("unix", (), "", 3)),
        ("unix:///s?password=p%2F", RedisUrl("unix", (), "", 0, None, "p/")),
        ("redis://h?db=2", RedisUrl("redis", (("h", None),), "", 2)),
        ("rediss://h/0?ssl_cert_reqs=none", RedisUrl("rediss", (("h", None),), "", 0)),
        ("redis+sentinel://a/my%20m", RedisUrl("redis+sentinel", (("a", 26379),), "my m", 0)),
        (
            "rediss+sentinel://:%40@[::1],b:7/main/3",
            RedisUrl("rediss+sentinel", (("::1", 26379), ("b", 7)), "main", 3, None, "@"),
        ),
        ("redis+sentinel://a/main", RedisUrl("redis+sentinel", (("a", 26379),), "main", 0)),
    ],
)
def test_url_says_where_redis_is(url: str, parsed: RedisUrl) -> None:
    assert parse_redis_url(url) == parsed
    assert SECRET not in repr(parse_redis_url(url.replace("p%2F", SECRET).replace("%40", SECRET)))
    Connections(RedisConfig(url), ignore)  # redis-py takes it too


@pytest.mark.parametrize(
    "url",
    [
        f"redis://:a/{SECRET}@localhost/0",
        f"redis://:a#{SECRET}@localhost/0",
        f"redis://:a?{SECRET}@localhost/0",
        f"redis://:{SECRET}]@localhost/0",
        f"redis://user:{SECRET}/x@localhost/0",
        f"redis+sentinel://:{SECRET}@localhost/0",
        f"redis://:{SECRET}@localhost:port/0",
        f"{SECRET}://localhost",
        f"redis+sentinel://:{SECRET}@a:1,:{SECRET}@b:2/mymaster",
        f"redis+sentinel://a/mymaster?password={SECRET}",
        f"redis://:{SECRET}@h/0?retry=1",
        f"redis://h/0?{SECRET}",
        f"REDIS://:{SECRET}@h/0",
    ],
)
def test_refusal_holds_no_piece_of_the_password(url: str) -> None:
    assert SECRET not in refusal(RedisConfig(url))


async def test_database_that_this_redis_has_not_is_refused(redis: RedisServer) -> None:
    config = RedisConfig(f"unix://{redis.socket}?db=4711")
    with pytest.raises(UnsupportedRedis, match="no database"):
        await RedisJobClient(config).start()
    with pytest.raises(UnsupportedRedis, match="no database"):
        await RedisJobConsumer(config, "w").start()


@pytest.mark.parametrize("url", ["redis://localhost", "unix:///s", "redis+sentinel://h/mymaster"])
def test_files_of_tls_without_tls_are_refused(url: str, tmp_path: Path) -> None:
    assert "rediss://" in refusal(RedisConfig(url, tls_ca_file=tmp_path / "ca.pem"))


@pytest.mark.parametrize("url", ["rediss://localhost", "rediss+sentinel://h/mymaster"])
def test_files_of_tls_that_are_missing_or_none_are_refused(url: str, tmp_path: Path) -> None:
    absent, empty = tmp_path / "absent.pem", tmp_path / "empty.pem"
    empty.touch()
    assert "absent.pem: No such file" in refusal(RedisConfig(url, tls_ca_file=absent))
    assert "empty.pem" in refusal(RedisConfig(url, tls_ca_file=empty))
    assert "empty.pem" in refusal(RedisConfig(url, tls_cert_file=empty, tls_key_file=empty))
    assert "without its certificate" in refusal(RedisConfig(url, tls_key_file=empty))
