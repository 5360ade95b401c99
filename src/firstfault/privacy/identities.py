"""What is an identity (host, user, path, address, bucket, e-mail) and its stable pseudonym.

Standard library only. It must not raise on any text. One name has one pseudonym everywhere in what it is given.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from typing import TYPE_CHECKING

from firstfault.model.lazy import lazy
from firstfault.privacy.file_names import names_in
from firstfault.privacy.hostlists import Hostlists
from firstfault.privacy.public_paths import everybodys, public

if TYPE_CHECKING:
    from collections.abc import Iterable

_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]*(?:\.[A-Za-z0-9][A-Za-z0-9_-]*)*"
_HOSTS = lazy(
    rf"(?P<nccl>(?<![\w.-]){_NAME})(?=:\d+:\d+ \[\d+\] )"
    rf"|\b(?:MASTER_ADDR|HOSTNAME|SLURMD_NODENAME|SLURM_NODELIST|BatchHost|master_addr|rdzv_endpoint|hostname|nodename)[\"']?\s*[:=]\s*[\"']?(?P<env>{_NAME})"
    rf"|^\s*(?:\[[^\]]*\]:?\s*)*host\s+:\s(?P<elastic>{_NAME})"
    rf"|\bsrun: (?:error|warning): (?P<srun>{_NAME})(?=: task)"
    rf"|\b(?:ON|on (?:node|host)|node|Node) (?P<on>(?=[A-Za-z0-9_.-]*\d){_NAME}) (?:CANCELLED|failed|is down|not respond|became|lost)"
    rf"|\[(?P<bracket>(?=[\w.-]*[A-Za-z]){_NAME})\]:\d{{2,5}}\b"
    rf"|\((?P<pair>(?=[\w.-]*[A-Za-z]){_NAME}), \d{{4,5}}\)"
    rf"|\b(?:tcp|https?|grpc|ssh|redis|nats|ws|wss)://(?:[^/@\s]*@)?(?P<url>(?=[\w.-]*[A-Za-z]){_NAME})"
    rf"|^(?:[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d|\d{{4}}-\d\d-\d\dT\S+) (?P<syslog>(?=[\w.-]*[A-Za-z]){_NAME})(?= [\w./()-]+(?:\[\d+\])?:)"
    rf"|\bnfs: server (?P<nfs>{_NAME})(?= )"
    rf"|\b(?:mount(?:ing|ed)?|from) (?P<mount>(?=[\w.-]*[A-Za-z]){_NAME})(?=:/)"
    rf"|(?<![\w./:@-])(?P<export>(?=[\w.-]*[A-Za-z])(?=[\w.-]*\d){_NAME})(?=:/[\w.-])"
    rf"|(?<![\w./:@-])(?P<exported>(?=[\w.-]*[A-Za-z]){_NAME})(?=:/\S* on /)"
    rf"|(?<![\w:/])(?://|\\{{2,4}})(?P<unc>(?=[\w.-]*[A-Za-z]){_NAME})(?=[/\\]\w)"
    rf"|\b(?:Started up|Rotated) at \d{{4}}/\d\d/\d\d [\d:]{{8}}, host (?P<daemon>{_NAME})"
    rf"|\bais(?:target|proxy|node)\.(?P<daemonlog>{_NAME})(?=\.(?:INFO|ERROR|WARNING)\.\d{{4}}-\d{{6}})"
    rf"|\[pod/(?P<pod>{_NAME})/"
    rf"|(?<![\w.-])(?P<podlog>[a-z0-9][a-z0-9-]*)(?=_[a-z0-9-]+_[a-z0-9-]+-[0-9a-f]{{64}}\.log)"
    rf"|(?<![\w.-])[a-z0-9-]+_(?P<podfolder>[a-z0-9][a-z0-9.-]*)(?=_[0-9a-f]{{8}}-[0-9a-f]{{4}}-[0-9a-f]{{4}}-[0-9a-f]{{4}}-[0-9a-f]{{12}})"
    rf"|(?<![\w.-])(?P<podfile>(?:[a-z0-9]+-)+(?:target|proxy|worker|master|launcher|chief)-[a-z0-9-]*\d)(?=\.(?:previous\.)?(?:log|out|err|txt)\b)"
    rf"|[{{,]\s*[\"'](?:host|node)[\"']\s*:\s*[\"'](?P<field>(?=[\w.-]*[A-Za-z]){_NAME})[\"']"
    r"|^(?P<prefix>[a-z][a-z0-9]*(?:-[a-z0-9]+)*-[a-z]*\d+|[a-z]{2,8}(?:0\d{1,5}|\d{3,6}))(?=: | \| )"
    rf"|^\[(?P<labelled>(?=[\w.-]*[A-Za-z])(?=[\w.-]*\d){_NAME}):(?:rank|local_rank)_?\d+\]"
    rf"|\b(?:connect to host|ssh to|hosts?=|Hosts? ) ?(?P<ssh>(?=[\w.-]*\d){_NAME})"
)
_FQDN = lazy(
    r"(?<![\w./-])(?<![^\]]@)(?:[A-Za-z0-9][A-Za-z0-9-]*\.){1,8}(?:com|net|org|edu|gov|local|internal|lan|corp|intra|cluster|cn|de|uk|fr|jp|ch|eu"
    r"|cloud|hpc|example|test|invalid|kr|tw|hk|sg|au|ca|nl|se|pl|ru|br|il|info|arpa|host)(?![\w-]|\.\w)"
    r"|(?<![\w./-])(?<![^\]]@)(?:[A-Za-z0-9][A-Za-z0-9-]*\.){2,8}(?:io|ai|dev|svc|prod|site)(?![\w-]|\.\w)"
)
_PUBLIC = lazy(
    r"(?:^|\.)(?:github\.com|githubusercontent\.com|pytorch\.org|huggingface\.co|nvidia\.com|python\.org|readthedocs\.(?:io|org)"
    r"|google\.com|apache\.org|slurm\.schedmd\.com|schedmd\.com|kernel\.org|intel\.com|amd\.com|wandb\.ai|microsoft\.com|deepspeed\.ai)$"
)
_COMMON = frozenset(
    [
        "localhost",
        "localdomain",
        "unknown",
        "none",
        "null",
        "node",
        "nodes",
        "host",
        "hosts",
        "master",
        "worker",
        "rank",
        "root",
        "error",
        "info",
        "warning",
        "debug",
        "train",
        "trainer",
        "python",
        "torch",
        "default",
        "launcher",
        "job",
        "task",
        "gpu",
        "cuda",
        "nccl",
        "main",
        "all",
    ]
)
_SERVICES = frozenset(
    [
        "storage",
        "store",
        "s3",
        "ais",
        "api",
        "www",
        "data",
        "cdn",
        "hub",
        "registry",
        "gateway",
        "proxy",
        "login",
        "head",
        "minio",
        "blob",
        "oss",
        "cos",
        "obs",
        "mail",
        "ftp",
        "git",
        "pypi",
        "download",
        "files",
        "models",
        "mirror",
        "service",
        "server",
        "db",
        "redis",
        "web",
        "app",
        "docs",
        "dev",
        "test",
        "prod",
        "staging",
        "auth",
        "sts",
        "metadata",
        "monitor",
        "metrics",
        "artifacts",
    ]
)
"""First parts of the names of servers that are words of everybody's."""
_LABEL = lazy(r"(?:default|rank|task|local_rank|worker|node_rank|attempt|cuda|gpu|std(?:out|err))_?\d*", re.IGNORECASE)
"""Stream labels that stand where a host might."""
_COMMON_USERS = frozenset(
    [
        "root",
        "user",
        "users",
        "ubuntu",
        "admin",
        "shared",
        "share",
        "data",
        "public",
        "default",
        "nobody",
        "runner",
        "build",
        "work",
        "home",
        "app",
    ]
)
_MAIL = lazy(r"(?<![\w.+-])[A-Za-z0-9_.+-]+@(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,}(?![\w-])")
_LOGIN = lazy(rf"(?<![\w.+/:-])(?P<user>[a-z_][a-z0-9_.-]{{1,31}})@(?P<host>{_NAME})(?=[:\s]|$)")
_USER = lazy(
    r"(?:/(?:home|homes|Users|users|u)/|\b(?:USER|LOGNAME|USERNAME|SLURM_JOB_USER|user|username|UserId|owner)[\"']?\s*[=:]\s*[\"']?"
    r"|\buid=\d+\(|\bchown (?:-\w+ )*|\b(?:by|for) user |[A-Za-z]:\\{1,2}Users\\{1,2}|\blogin: |\bby (?=\S{2,32} \(?uid\b))"
    r"(?P<user>[A-Za-z_][A-Za-z0-9_.-]{1,31})"
)
_UID = lazy(r"(?<=\buid[ =:])\d{3,}\b")
"""Number of a user; those of the system itself are smaller and tell nothing."""
_IPV4 = lazy(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?!\.?\w)")
_IPV6 = lazy(r"(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?![\w:])")
_HARDWARE = lazy(
    r"(?<![\w:-])(?:[0-9A-Fa-f]{2}:){5,7}[0-9A-Fa-f]{2}(?![\w:-])|\b(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
)
_BUCKET = lazy(
    r"\b(?P<scheme>s3|s3a|s3n|gs|gcs|ais|az|azure|abfss?|wasbs?|oss|cos|obs|tos|hdfs|swift|r2|minio|ht|b2)://(?P<bucket>[^/:\s\"'`,;)\]}]+)"
    r"(?P<path>(?:/[^\s\"'`,;)\]}]*)?)"
)
_URL = lazy(r"(?P<head>\bhttps?://(?:[^/@\s\"']*@)?(?P<host>[^/:\s\"'<>?#]+)(?::\d+)?)(?P<path>/[^\s\"'<>?#,;)\]}]*)")
"""A web address with a path: behind an object store's name the first part of the path is a bucket as a rule."""
_API = lazy(
    r"(?i)v\d+\w*|api|objects?|buckets?|ml|moss|daemon|cluster|storage|b|o|upload|download|resolve|main|datasets?|models?|spaces|tree|raw|blob"
    r"|files?|health|metrics|status|login|token|oauth\d?|apis|graphql|rest|artifacts?|experiments?|runs?|projects?|mlflow|mlflow-artifacts"
)
"""Parts of the paths of web addresses that are a service's own words."""
_ARN = lazy(
    r"\b(?P<head>arn:aws[\w-]*:(?P<service>[\w-]*):[\w-]*:)(?P<account>\d*)(?P<colon>:)(?P<resource>[^\s\"'`,;)\]}]+)"
)
"""A name of something at AWS, with the number of the account."""
_ACCOUNT = lazy(
    r"(?<![\w.-])\d{12}(?=\.dkr\.ecr\.)|(?i:(?<=account )|(?<=account_id=)|(?<=accountid=)|(?<=\"account\": \"))\d{12}(?!\d)"
)
"""The same number elsewhere: in the address of a registry, or named so."""
_BUCKET_HOST = lazy(r"(?<=//)(?P<bucket>[a-z0-9][a-z0-9.-]+?)(?=\.(?:s3|blob|oss|cos|storage)[.-][a-z0-9.-]+)")
_PIECE = r"[^\s/\"'`,:;\[\]{}<>|=*?\\]+"
_BLANKED = rf"(?:/{_PIECE}(?: (?!-){_PIECE})*)+/?"
"""A path in whose parts blanks stand; where it ends only the quotes around it tell."""
_PATH = lazy(
    rf"(?<='){_BLANKED}(?=')|(?<=\"){_BLANKED}(?=\")|(?<=`){_BLANKED}(?=`)"
    r"|(?:(?<=file://)|(?<![\w./~-]))(?P<tilde>~[\w.-]*)?/(?:[^\s/\"'`,:;()\[\]{}<>|=*?\\]+/)*[^\s/\"'`,:;()\[\]{}<>|=*?\\]*"
)
_DRIVE = lazy(r"(?<![A-Za-z0-9])(?P<drive>[A-Za-z]:)(?P<path>(?:\\{1,2}[^\s\\/:*?\"'<>|,;]+)+)")
"""A path of Windows; quoted text may hold its backslashes twice."""
_SHARE = lazy(r"(?<=[/\\])(?P<host>[\w.-]+)(?P<path>(?:\\{1,2}[^\s\\/:*?\"'<>|,;]+)+)")
"""A path behind the host of a Windows share."""
_RELATIVE = lazy(
    r"(?<![\w./~@:-])(?P<folders>(?:[\w.+@-]+/)+)(?P<last>[\w.+@-]*\.(?:py|log|out|err|ya?ml|jsonl?|txt|sh|sbatch|slurm|csv|tsv|pth?|ckpt|bin|idx"
    r"|safetensors|tar|t?gz|zst|xz|bz2|zip|np[yz]|parquet|arrow|toml|cfg|ini|conf|md|wav|flac|mp3|m4a|mp4|jpe?g|png|h5|hdf5|cpp|cc|cu|so|pkl))\b"
)
"""A path without a root that ends in a file; `1/5` and `tokens/s` are none."""
_REPORTS = lazy(r".*\.(?:log|out|err|txt|jsonl?|csv|tsv)")
"""What such a file as those of the input is named, where it is told of only in a sentence."""
_GENERIC = lazy(
    r"(?i)\.{1,2}|\d+|(?:attempt|rank|node|worker|local_?rank|group_?rank|replica|epoch|step|iter|shard|job|array|task|gpu|host|role|pod)s?[-_]?\d*"
    r"|(?:logs?|out(?:puts?)?|std(?:out|err)|err(?:ors?)?|torchrun|elastic|src|libs?|bin|include|examples?|scripts?|tools?|utils?|data(?:sets?)?"
    r"|runs?|exp(?:eriments?)?|checkpoints?|ckpts?|results?|models?|conf(?:igs?)?|train(?:ing|er)?|eval(?:uation)?|tests?|tmp|cache|core|common"
    r"|workers?|daemons?|proxys?|targets?|kernel|dmesg|slurm|home|users|mnt|scratch|work|opt|share[ds]?|python[\d.]*|conda|venv|env|\.venv"
    r"|torchrun|srun|sbatch|bash|sh|mpirun|deepspeed|accelerate|ray|nsys|ncu|latest|final|best|last|train(?:ed)?|valid(?:ation)?|wandb|tensorboard)"
    r"|(?:iter|step|epoch|global_step|checkpoint|ckpt|version|rank|shard|part)[-_=]?\d+"
)
"""Parts of paths that everybody has; they tell nobody's name."""
_PACKAGES = frozenset(
    [
        "torch",
        "torchvision",
        "torchaudio",
        "torchdata",
        "torchtitan",
        "numpy",
        "transformers",
        "deepspeed",
        "megatron",
        "nemo",
        "lightning",
        "pytorch_lightning",
        "accelerate",
        "datasets",
        "transport",
        "misc",
        "ray",
        "apex",
        "flash_attn",
        "xformers",
        "vllm",
        "sglang",
        "verl",
        "trl",
        "peft",
        "fairseq",
        "fairseq2",
        "aistore",
        "lhotse",
        "webdataset",
        "jax",
        "jaxlib",
        "c10",
        "c10d",
        "aten",
        "distributed",
        "nn",
        "optim",
        "autograd",
        "fsdp",
        "multiprocessing",
        "concurrent",
        "asyncio",
        "urllib3",
        "requests",
        "botocore",
        "boto3",
        "fsspec",
        "s3fs",
        "gcsfs",
        "huggingface_hub",
        "colossalai",
        "composer",
        "streaming",
        "mmengine",
        "mmdet",
        "detectron2",
        "triton",
        "hydra",
        "omegaconf",
        "tensorflow",
        "tensorboard",
        "wandb",
        "mlflow",
        "slurm",
        "gloo",
        "nccl",
    ]
)
"""First parts of paths inside public software."""
_FILE = lazy(r"[^\s/\"'`:;,()\[\]{}<>|\\]+")
"""What may be the name of a file in a text."""
_PSEUDONYM = lazy(
    r"(?:path|folder|file|bucket|host|hostlist|user|addr|mail|uid|device|account|role)-(?:\d+|[0-9a-f]{10})"
)
_INSTALLED = lazy(r"/(?:site-packages|dist-packages|lib/python\d(?:\.\d+)?)/")


class Identities:
    """Finds identities and gives each its pseudonym; learn all texts first, then clean them."""

    def __init__(self, *, key: bytes | None = None) -> None:
        self._key = key
        self._names: dict[tuple[str, str], str] = {}
        self._numbers: dict[str, int] = {}
        self._words: dict[str, tuple[str, str]] = {}
        self._pattern: re.Pattern[str] | None = None
        self._lists = Hostlists()
        self._blanked: set[str] = set()
        self._files: dict[str, list[str]] = {}
        """Name of a file -> what of it is no word of everybody's."""
        self._odd_files: dict[str, None] = {}
        """Paths of those in whose names blanks or brackets stand."""
        self.removed: dict[str, int] = {}

    def pseudonym(self, kind: str, name: str) -> str:
        """The pseudonym of one name, such as `host-3`; the same name of one kind gives the same one."""
        if (kind, name) not in self._names:
            if self._key is None:
                self._numbers[kind] = self._numbers.get(kind, 0) + 1
                self._names[kind, name] = f"{kind}-{self._numbers[kind]}"
            else:
                digest = hmac.new(self._key, f"{kind}\0{name}".encode("utf-8", "backslashreplace"), hashlib.sha256)
                self._names[kind, name] = f"{kind}-{digest.hexdigest()[:10]}"
        return self._names[kind, name]

    def learn_hosts(self, names: Iterable[str]) -> None:
        """Takes names that are known to be hosts, in the order in which they are to be numbered."""
        for name in names:
            if "[" in name:
                self._lists.take(name)
            else:
                self._learn_host(name)

    def learn_paths(self, paths: Iterable[str]) -> None:
        """Takes names of files and folders.

        A folder with a blank in its name is known by nothing else where no quotes stand; and in the name of a file no form
        tells the name of a person or a machine.
        """
        for path in paths:
            *folders, last = path.split("/")
            self._blanked.update(part for part in folders if " " in part.strip())
            if last not in self._files and (names := names_in(last)):
                self._files[last] = sorted(names, key=lambda n: (-len(n), n))
            if not _FILE.fullmatch(last):
                self._odd_files.setdefault(path)

    def learn(self, text: str) -> None:
        """Takes the hosts and users that a text names; nothing else needs learning."""
        self._lists.learn(text)
        for match in _HOSTS.finditer(text):
            self._learn_host(next(v for v in match.groupdict().values() if v is not None))
        for match in _FQDN.finditer(text):
            self._learn_host(match.group())
        for match in _LOGIN.finditer(text):
            self._learn_host(match["host"])
            self._learn_user(match["user"])
        for match in _USER.finditer(text):
            self._learn_user(match["user"])

    def _learn_host(self, name: str) -> None:
        if _is_address(name) or _PUBLIC.search(name.lower()):
            return
        short = name.split(".", maxsplit=1)[0]
        if len(short) < 2 or short.lower() in _COMMON or short.isdigit() or _LABEL.fullmatch(short):
            return
        if short.lower() in _SERVICES:
            # `storage.store.example` is a host; `storage` is a word.
            self._words.setdefault(name, ("host", name))
        for word in (name, short) if short.lower() not in _SERVICES else ():
            self._words.setdefault(word, ("host", short))
        self._lists.take_host(short)
        self._pattern = None

    def _learn_user(self, name: str) -> None:
        name = name.rstrip(".-")
        if len(name) >= 3 and name.lower() not in _COMMON_USERS and name not in self._words:
            self._words[name] = ("user", name)
            self._pattern = None

    def clean(self, text: str) -> str:
        """The text with every identity replaced by its pseudonym."""
        for folder in sorted(self._blanked, key=lambda f: (-len(f), f)):
            for part in (f"{folder}/", f"/{folder}"):  # the same words elsewhere are a sentence's
                if part in text:
                    text = text.replace(part, part.replace(folder, self._name("folder", folder)))
        if self._files:
            for path in self._odd_files:
                text = text.replace(path, self._known(path)) if path in text else text
            text = _FILE.sub(lambda m: self._renamed(m.group()), text)
        text = self._lists.clean(text, lambda hosts: self._name("hostlist", hosts))
        text = _MAIL.sub(lambda m: self._name("mail", m.group()), text)
        text = _BUCKET_HOST.sub(lambda m: self._name("bucket", m["bucket"]), text)
        text = _BUCKET.sub(self._bucket, text)
        text = _ARN.sub(self._arn, text) if "arn:aws" in text else text
        text = _ACCOUNT.sub(lambda m: self._name("account", m.group()), text)
        text = _URL.sub(self._url, text) if "://" in text else text
        text = _DRIVE.sub(lambda m: m["drive"] + self._backslashed(m["path"]), text)
        text = _SHARE.sub(lambda m: m["host"] + self._backslashed(m["path"]), text) if "\\" in text else text
        text = _PATH.sub(lambda m: self._path(m.group()), text)
        text = _RELATIVE.sub(self._relative, text)
        text = _UID.sub(lambda m: self._name("uid", m.group()), text)
        text = _HARDWARE.sub(lambda m: self._name("device", m.group()), text)
        text = _IPV4.sub(self._address, text)
        text = _IPV6.sub(self._address, text)
        return self._word_pattern().sub(self._word, text)

    def _known(self, path: str) -> str:
        """The path of a file of the input, whatever stands in it."""
        folder, sign, last = path.rpartition("/")
        if sign and not public(path):
            folder = self._folder(folder) if folder.startswith("/") else "/".join(map(self._part, folder.split("/")))
        return f"{folder}{sign}{self._renamed(last)}"

    def _renamed(self, file: str) -> str:
        """The name of a file; hosts and users in it get their own pseudonyms."""
        names = self._files.get(file)
        if names is None:
            return file
        text = self._word_pattern().sub(self._word, file)
        for name in names:
            text = re.sub(
                rf"(?<![A-Za-z0-9-]){re.escape(name)}(?![A-Za-z0-9-])", lambda m: self._name("file", m.group()), text
            )
        return text

    def _name(self, kind: str, name: str) -> str:
        self.removed[kind] = self.removed.get(kind, 0) + 1
        return self.pseudonym(kind, name)

    def _word_pattern(self) -> re.Pattern[str]:
        if self._pattern is None:
            longest_first = sorted(self._words, key=lambda w: (-len(w), w))
            names = [*map(re.escape, longest_first), *self._lists.members()] or ["(?!)"]
            self._pattern = re.compile(r"(?<![A-Za-z0-9])(?:" + "|".join(names) + r")(?![A-Za-z0-9])")
        return self._pattern

    def _word(self, match: re.Match[str]) -> str:
        return self._name(*self._words.get(match.group(), ("host", match.group())))

    def _bucket(self, match: re.Match[str]) -> str:
        path = match["path"]
        shown = "" if path in {"", "/"} else self._folder(path)
        return f"{match['scheme']}://{self._name('bucket', match['bucket'])}{shown}"

    def _arn(self, match: re.Match[str]) -> str:
        """The account by a pseudonym, and what it names: a bucket with its path, or the last part of the name."""
        resource = match["resource"]
        account = self._name("account", match["account"]) if match["account"] else ""
        if match["service"] == "s3":
            bucket, sign, path = resource.partition("/")
            shown = self._name("bucket", bucket) + (self._folder(sign + path) if path else "")
        else:
            kind, sign, name = resource.rpartition("/") if "/" in resource else resource.rpartition(":")
            shown = f"{kind.split('/', 1)[0]}{sign}{self._name('role', name)}"
        return f"{match['head']}{account}{match['colon']}{shown}"

    def _url(self, match: re.Match[str]) -> str:
        """A web address of nobody's public site, with every part of its path that is not a service's own word replaced."""
        if _PUBLIC.search(match["host"].lower()):
            return match.group()
        *folders, last = match["path"][1:].split("/")
        shown = [p if not p or _API.fullmatch(p) else self._bucket_or_folder(p) for p in folders]
        if last and "." not in last and not _API.fullmatch(last):
            last = self._bucket_or_folder(last)
        return "/".join([match["head"], *shown, last])

    def _bucket_or_folder(self, name: str) -> str:
        """A part of an address's path: a bucket where that name is known as one."""
        return self._name("bucket", name) if ("bucket", name) in self._names else self._part(name)

    def _path(self, path: str) -> str:
        return path if everybodys(path) or public(path) else self._folder(path)

    def _folder(self, path: str) -> str:
        installed = _INSTALLED.search(path)
        if installed is not None:
            return f"/{self._name('path', path[: installed.start()])}{path[installed.start() :]}"
        folder, _, last = path.rstrip("/").rpartition("/")
        if not folder:
            return f"/{self._name('path', path)}" if "." not in last else path
        return f"/{self._name('path', folder)}/{self._part(last) if '.' not in last else last}"

    def _backslashed(self, path: str) -> str:
        """A path of Windows: its folders as one pseudonym, and its last part where that is a file."""
        sign = "\\\\" if path.startswith("\\\\") else "\\"
        folder, _, last = path.rpartition(sign)
        shown = last if "." in last else self._part(last)
        return f"{sign}{self._name('path', folder)}{sign}{shown}" if folder else f"{sign}{shown}"

    def _relative(self, match: re.Match[str]) -> str:
        """A path without a root: each of its folders that is not everybody's becomes a pseudonym."""
        parts = match["folders"].rstrip("/").split("/")
        if parts[0] in _PACKAGES:
            return match.group()
        last = match["last"]
        if last not in self._files and _REPORTS.fullmatch(last):
            self.learn_paths([last])
        return "/".join([*(self._part(p) for p in parts), self._renamed(last)])

    def _part(self, name: str) -> str:
        """One folder's name; hosts and users among them get their own pseudonyms later."""
        if name in self._words or name in _PACKAGES or _GENERIC.fullmatch(name) or _PSEUDONYM.fullmatch(name):
            return name
        return self._name("folder", name)

    def _address(self, match: re.Match[str]) -> str:
        text = match.group()
        if not _is_address(text):
            return text
        address = ipaddress.ip_address(text)
        if address.is_loopback or address.is_unspecified or text == "255.255.255.255":
            return text
        return self._name("addr", text)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
