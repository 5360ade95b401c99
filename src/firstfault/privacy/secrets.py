"""What is a secret in a piece of text, and how it is taken out.

Standard library only. It must not raise on any text, and must leave alone what merely looks random: hashes, sequence
numbers, commit ids, paths.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_LOOKED = 4096
"""Texts of which it is remembered what was found in them."""
LONG = 380
"""Characters from which a text may be a window cut out of a longer line, so that a secret may be cut at its ends."""


class Secret(NamedTuple):
    """A secret in a text: where it stands and of which kind it is."""

    start: int
    end: int
    kind: str


# Vendors' own prefixes: whoever prints these prints a key. The lookbehind keeps `task-…` from being `sk-…`.
_PREFIXED = lazy(
    r"(?<![A-Za-z0-9])(?:"
    r"(?P<github_token>gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,})"
    r"|(?P<gitlab_token>gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent)-[A-Za-z0-9_.-]{16,})"
    r"|(?P<huggingface_token>hf_(?=[A-Za-z0-9]*[A-Z0-9])[A-Za-z0-9]{16,}|api_org_[A-Za-z0-9]{16,})"
    r"|(?P<slack_token>xox[abceoprs](?:\.xox[a-z])?-[A-Za-z0-9-]{10,}|xapp-\d-[A-Za-z0-9-]{10,})"
    r"|(?P<aws_key>(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[A-Z0-9]{16}(?![A-Z0-9]))"
    r"|(?P<google_key>AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_.-]{16,}|GOCSPX-[A-Za-z0-9_-]{16,}|GOOG1[A-Za-z0-9]{20,})"
    r"|(?P<wandb_key>wandb_v\d_[A-Za-z0-9_-]{16,})"
    r"|(?P<nvidia_key>nvapi-[A-Za-z0-9_-]{16,})"
    r"|(?P<api_key>(?:sk|pk|rk)[-_](?=[A-Za-z_-]*[0-9A-Z])(?:[A-Za-z0-9]+[-_]){0,4}[A-Za-z0-9_-]{18,}"
    r"|gsk_[A-Za-z0-9]{20,}|r8_[A-Za-z0-9]{24,}|SG\.[\w-]{16,}\.[\w-]{16,}|dapi[0-9a-f]{32}|npm_[A-Za-z0-9]{30,}"
    r"|pypi-AgE[\w-]{20,}|dckr_(?:pat|oat)_[\w-]{16,}|do[opr]_v1_[0-9a-f]{40,}|hv[sbr]\.[\w-]{20,}|s\.[A-Za-z0-9]{24}(?!\w)"
    r"|LTAI[A-Za-z0-9]{12,}|AKID[A-Za-z0-9]{13,}|\d{8,10}:AA[\w-]{32,}|[\w~.]{3}\dQ~[\w~.-]{31,}|tskey-[\w-]{16,})"
    r"|(?P<jwt>eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*){0,3})"
    r")"
)
_BLOCK = lazy(
    r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----|\Z)"
    r"|PuTTY-User-Key-File-\d.*\Z",
    re.DOTALL,
)
_KEY_BODY = lazy(r"(?<![^\s:])[A-Za-z0-9+/]{60,76}={0,2}(?=\s*$)")
"""One line of the body of a key block, whose header stood on an earlier line; maybe behind a stream prefix."""
_URL_LOGIN = lazy(
    r"(?<=://)(?:[^\s/?#:@\"'<>]*:(?!\d{1,5}(?:[/?#\s]|$))[^\s\"'<>@]*(?:@[^\s/?#\"'<>@]+)*(?=@[\w.\[-])"
    r"|[^\s/?#:@\"'<>]{16,}(?=@[\w.\[-]))"
)
_WEBHOOK = lazy(
    r"(?:hooks\.slack\.com/(?:services|workflows)/|discord(?:app)?\.com/api/webhooks/|/open-apis/bot/v2/hook/"
    r"|\.webhook\.office\.com/\w+/)(?P<value>[A-Za-z0-9_/@.-]{8,})"
)
_SIGNED = lazy(
    r"[?&](?:x-(?:amz|goog|oss|cos)-)?(?:signature|sig|credential|security-token|accesskeyid|(?:aws|oss)accesskeyid|policy|key-pair-id"
    r"|q-signature|q-ak|sign)=(?P<value>(?!\[removed:)[^&\s\"'<>]{8,})",
    re.IGNORECASE,
)
"""What signs an address of an object: whoever has it may read the object, whether or not it looks random."""
_HEADER = lazy(
    r"\b(?:proxy-)?authorization\\?[\"']?\s*[:=,]\s*(?:b?\\?[\"'])?"
    r"(?P<value>(?:(?:bearer|basic|token|digest|negotiate|aws4-hmac-sha256|apikey|key)\s+)?[^\s\"'\\][^\"'\\\r\n]*)"
    r"|\b(?:set-cookie|cookie)\\?[\"']?\s*[:=]\s*(?:b?\\?[\"'])?(?P<cookie>[\w.-]+=[^\"'\\\r\n]+)"
    r"|\bbearer\s+(?P<bearer>[A-Za-z0-9._~+/-]{12,}=*)",
    re.IGNORECASE,
)
_COMMAND = lazy(
    r"\bwandb\s+login\s+(?:--\S+\s+)*(?P<wandb>\w{20,})"
    r"|\blogin\s+\S+\s+password\s+(?P<netrc>\S+)"
    r"|\bsshpass\s+-p\s*(?P<sshpass>\S+)"
    r"|\b(?:mysql\w*|mariadb[\w-]*|mongo\w*|7z[az]?|rar|unrar)\b[^\r\n]{0,300}?\s-p\s?(?P<mysql>[^\s-]\S*)"
    r"|\b(?:zip|unzip|ipmitool|ssh-keygen)\b[^\r\n]{0,300}?\s-[PN]\s?(?P<zip>[^\s-]\S*)"
    r"|\bldap(?:search|modify|add|delete|whoami)\b[^\r\n]{0,300}?\s-w\s?(?P<ldap>[^\s-]\S*)"
    r"|\bredis-cli\b[^\r\n]{0,300}?\s-a\s?(?P<redis>[^\s-]\S*)"
    r"|\bpass(?:in|out)?\s+pass:(?P<openssl>\S+)"
    r"|\blogin\b[^\r\n]{0,300}?\s-p[\s=]\s*(?P<login>[^\s-]\S*)"
    r"|\s(?:-u|--user(?:name)?)[\s=](?!\S+\.(?:py|sh)\b)[^\s-]\S*\s[^\r\n]{0,300}?(?<=\s)-p[\s=]?(?P<flag>(?![\d.:]+(?:/\w+)?(?:\s|$))[^\s-]\S*)"
    r"|\bsetenv\s+\w*(?:TOKEN|KEY|SECRET|PASS\w*)\s+(?P<setenv>\S+)"
    r"|\bcurl\b[^\r\n]{0,300}?\s(?:-u|--user)[ =]?[\"']?[^\s:\"']+:(?P<curl>[^\s\"']+)"
)
_SPOKEN = lazy(
    r"\b(?P<word>pass(?:phrase|word|wd|code))\b(?:\s+for\s+[^\s:]+)?(?P<link>\s*[:=]\s*|\s+(?:is|was)\s+(?:set\s+to\s+)?|\s+)"
    r"(?P<quote>[\"']?)(?P<value>[^\s\"'<>]+)",
    re.IGNORECASE,
)
"""A password in a sentence: `passphrase x`, `password is x`, `Password for me: x`."""
_PROSE = lazy(
    r"(?i)(?:(?:in)?correct|wrong|(?:in)?valid|missing|not|never|empty|expired|changed?|needed|required?|set|protected|the|an?|for|of|prompts?"
    r"|must|may|can(?:not)?|could|should|will|would|in|on|at|by|to|from|was|is|are|has|have|had|and|or|but|file|fields?|auth\w*|managers?|hash\w*"
    r"|reset|too|does|did|do|fail(?:ed|ure)|rejected|accepted|hidden|removed|redacted|with\w*|if|when|only|policy|policies|prompting|entered"
    r"|mismatch|matche?s?|provided|given|found|lookup|check\w*|database|store|entry|length|was|less|based|login|access|again|please|your|this|that"
    r"|it|its|as|than|stored|read|loaded|argument|option|parameter|variable|string|value|rotation|update[ds]?)[.,:;!?)]*"
)
"""Words that follow such a word in a sentence and are none."""
_UNEXPECTED = lazy(
    r"(?i)(?:unexpected|invalid|unknown|illegal|bad|next|previous|last|first|current|special|generated|predicted|sampled)\s+\Z"
)
"""What stands before a token of a language, not of a login."""
_PASSWORDS = r"pass(?:word|wd|phrase|wort|code)|(?<=[A-Za-z0-9]_)pass|(?-i:(?<![A-Za-z])pwd)|(?<=[A-Za-z0-9_])_pwd|(?-i:(?<![A-Za-z])pw)"
_STRONG = (
    r"secret[_-]?access[_-]?key|(?:api|access|auth|secret|account|private|signing|encryption|service|subscription|master)[_-]?key"
    r"|(?:client|app|shared|consumer|webhook|s3|aws|jwt)?[_-]?secret(?!s?[_-]?(?:name|keyref|ref|store|manager|version))"
    r"|(?:auth|authn|access|refresh|session|security|bearer|id|api|csrf|xsrf|oauth2?|hub|hf|huggingface(?:[_-]?hub)?|github|gitlab"
    r"|slack|wandb|ngc|ais(?:[_-]authn)?|job|deploy|registry|bot|personal[_-]access|service[_-]account|user|x-auth)[_-]?token"
    r"|credentials?|wandb[_-]?key|x-amz-(?:signature|credential|security-token)|x-goog-(?:signature|credential)"
    r"|sharedaccesssignature|connection[_-]?string|(?<=[A-Za-z0-9]_)cookie"
)
_NAMED = lazy(
    rf"(?:(?P<password>{_PASSWORDS})|(?P<strong>{_STRONG})|(?P<weak>token|key|auth|sig|signature))\d*(?P<end>)(?![\w-])"
    r"(?:(?P<sep>\\*[\"']?\s{0,4}(?:=>|:=|[:=])\s{0,4})|(?P<flag>\\*[\"']?,?\s{1,4}))"
    r"(?P<value>b?(?P<quote>\\*[\"'])(?:(?!(?P=quote))(?:\\{3}[\"']|\\[^\r\n]|[^\r\n])){0,8192}"
    r"|(?:(?![,;&|]\s*\\*[\"']?[\w.-]+\\*[\"']?\s*[=:]|[)\]}]+(?:[\s,;.]|$))[^\s\"'`\\]){1,8192})",
    re.IGNORECASE,
)
"""A word that speaks of a secret, at the end of a name, and what stands behind it; the name's front is read backwards."""
_NAMING = ("key", "token", "secret", "pass", "pw", "auth", "sig", "credential", "connection", "cookie")
"""Each alternative of `_NAMED` holds one of these."""
_ABROAD_PASSWORDS = (
    r"密码|密碼|口令|パスワード|暗証番号|비밀번호|암호|(?<!\w)парол[ья]|(?<![^\W_])(?:kennwort|senha|contraseña|palavra-passe|mot de passe|mdp"
    r"|wachtwoord|hasło|şifre|parola|mật khẩu|lösenord|heslo|salasana|adgangskode)"
)
_ABROAD_KEYS = (
    r"密钥|密鑰|金鑰|私钥|私鑰|令牌|權杖|凭证|凭据|憑證|授权码|トークン|秘密鍵|アクセスキー|토큰|개인키|비밀키|(?<!\w)токен|(?<!\w)ключ доступа"
    r"|(?<![^\W_])(?:geheimnis|zugangsschlüssel|clé secrète|clave secreta|chave secreta|jeton|ficha de acceso)"
)
_ABROAD = lazy(
    rf"(?:(?P<password>{_ABROAD_PASSWORDS})|(?P<key>{_ABROAD_KEYS}))\d*"
    r"(?:\\*[\"'」』”’]?\s{0,4}(?:=>|:=|(?:改|换|設|设|更新|重置)?(?:是|为|為|成了?)\s?[:：]?|[:：=＝]|は|とは|は:|이|는|은|est|ist|ist:|es|is)\s{0,4}|(?P<flag>\\*[\"']?,?\s{1,4}))"
    r"(?:b?\\*[\"'「『“‘])?(?P<value>[!-~][^\s\"'`\\」』”’，。；、]{0,8191})",
    re.IGNORECASE,
)
"""What other languages call a password or a key, and what stands behind it; of such a value the first letter is one of ours."""
_ACCOUNT = lazy(
    r"(?:账号|帐号|账户|帐户|賬號|帳號|用户名|登录名|アカウント|계정)(?:[/／]?(?:密码|口令))?\s?[:：是为為]{0,2}\s{0,4}"
    r"[A-Za-z][\w.@-]{0,63}\s?[/／]\s?(?P<value>[!-~]{6,128})"
)
"""An account and its password as people note them: `账号 root/…`."""
_ABROAD_NAMING = ("kennwort", "senha", "contrase", "palavra-passe", "mot de passe", "mdp", "wachtwoord", "parola", "heslo", "salasana", "adgangskode", "geheimnis", "clave secreta", "chave secreta", "jeton", "ficha de acceso")  # fmt: skip
"""Each alternative of `_ABROAD` holds one of these, or a letter that is none of ours."""
_TAG = lazy(
    r"<(?P<name>[\w:.-]{0,80}(?:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key))\b[^<>]{0,200}>\s{0,4}"
    r"(?P<value>[^<>\s]{1,8192})\s{0,4}</",
    re.IGNORECASE,
)
"""An element of XML that is named so."""
_FRONT = lazy(r"[\w.-]*\Z")
_ASSIGNED = lazy(r"[A-Za-z_][\w.-]{0,79}=([^=].*)", re.DOTALL)
EDGE = 120
"""Characters at the end of a window in which a cut secret is looked for; a longer run costs too much to look through."""
KNOWN = 8
"""Characters from which a secret's value is looked for in other texts too."""
NAME = 80
"""Characters of a name that are looked at."""
_TRIVIAL = lazy(
    r"(?:|none|null|nil|true|false|yes|no|on|off|str|string|bytes|int|bool|any|optional\[.*|str\s*\|.*|\*+|x{3,}|\.{2,}|…|-"
    r"|\$\w+|\$\{.*|\$\(.*|%\w|%\(.*|\{+[^{}\"':]*\}+|\{|\[|\(|<[^>]*>?|\[removed:.*|os\.(?:environ|getenv).*|redacted|hidden"
    r"|masked|missing|not|invalid|required|expired|is|was|and|or|must|for|has|from|to|in)",
    re.IGNORECASE | re.DOTALL,
)
_MODEL_TOKEN = lazy(
    r"(?:^|[._-])(?:bos|eos|pad|unk|mask|sep|cls|eot|eod|eom|im_start|im_end|image|audio|video|special|added|next|last|first|prompt|start"
    r"|end|stop|input|output|target|label|decoder|forced|num|max|min|per|total|new|prefix|suffix|chat|user_start|newline|vision"
    r"|boi|eoi|soi|sos|fim|tool|think|speech|text|word|language|lang|task|control|extra|additional)(?:[a-z_-]*)[_-]tokens?$",
    re.IGNORECASE,
)
_HEX = lazy(r"(?:0x)?[0-9a-fA-F]+(?:-[0-9a-fA-F]+)*")
_RANDOM = lazy(r"[A-Za-z0-9+/=_.~%-]{16,}")
_EDGE_HEAD = lazy(r"\A[A-Za-z0-9+/=_~-]{12,}")
_CLASS_NAME = lazy(
    r"\A(?:[A-Z][a-z]{1,20}|[A-Z]{2,8}){1,6}(?:Error|Exception|Warning|Interrupt|Iteration)(?=[:\s(]|\Z)"
)
"""A word that a window may well begin with: what follows a traceback is the class of its exception."""
_EDGE_TAIL = lazy(r"[A-Za-z0-9+/=_~-]{6,}\Z")
_CUT_PREFIX = lazy(
    r"(?<![A-Za-z0-9])(?:gh[pousr]_|github_pat_|glpat-|hf_|xox[a-z]-|AKIA|ASIA|AIza|ya29\.|nvapi-|sk-|eyJ)[\w.-]*\Z"
)


def entropy(text: str) -> float:
    """Shannon entropy in bits per character; 0 for an empty text."""
    size = len(text)
    return -sum(n / size * math.log2(n / size) for n in (text.count(c) for c in sorted(set(text))))


def looks_random(value: str, *, allow_hex: bool = False) -> bool:
    """Whether a value looks like a key rather than a word, number, path, version or (unless allowed) hash."""
    if not _RANDOM.fullmatch(value) or not re.search(r"\d", value) or not re.search(r"[A-Za-z]", value):
        return False
    if _HEX.fullmatch(value):
        return allow_hex and len(value) >= 16
    if value.startswith(("/", "./", "../", "~/")) or (re.search(r"/[^/]*/", value.rstrip("=")) and "." in value):
        return False
    words = [w for w in re.split(r"[-_./=%+~]+", value) if w]
    mixed = any(len(w) >= 12 and re.search(r"\d", w) and re.search(r"[A-Za-z]", w) for w in words)
    return mixed and entropy(value) >= 3.2


def find_secrets(text: str) -> list[Secret]:
    """Every secret of a text, in order, none within another; empty where there is none."""
    if len(text) < KNOWN and text.isdigit():
        return []
    found = sorted(_candidates(text), key=lambda s: (s.start, -s.end))
    kept: list[Secret] = []
    for secret in found:
        if secret.start >= secret.end:
            continue
        if kept and secret.start < kept[-1].end:
            if secret.end > kept[-1].end:
                kept[-1] = kept[-1]._replace(end=secret.end)
            continue
        kept.append(secret)
    return kept


def _candidates(text: str) -> Iterator[Secret]:
    for match in _PREFIXED.finditer(text):
        yield Secret(match.start(), match.end(), str(match.lastgroup).replace("_", " "))
    for match in _BLOCK.finditer(text):
        yield Secret(match.start(), match.end(), "private key")
    for match in _KEY_BODY.finditer(text):
        if looks_random(match.group()) and re.search(r"[a-z]", match.group()) and re.search(r"[A-Z]", match.group()):
            yield Secret(match.start(), match.end(), "private key")
    for match in _URL_LOGIN.finditer(text):
        yield Secret(match.start(), match.end(), "login in address")
    if "?" in text:
        for match in _SIGNED.finditer(text):
            yield Secret(*match.span("value"), "signed address")
    if _may_name(text):
        yield from _named(text)
        yield from _spoken(text)
        if "</" in text:
            yield from _tagged(text)
    yield from _abroad(text)
    for pattern, kind in ((_WEBHOOK, "webhook"), (_HEADER, "authorization"), (_COMMAND, "password")):
        for match in pattern.finditer(text):
            group = next(n for n, v in match.groupdict().items() if v is not None)
            if not _TRIVIAL.fullmatch(match.group(group)):
                yield Secret(match.start(group), match.end(group), kind)
    if len(text) >= LONG:
        yield from _cut(text)


def _may_name(text: str) -> bool:
    """Whether a text holds any of the words without which `_NAMED` finds nothing; looking for them costs far less."""
    if not text.isascii():
        return True  # letters of other scripts that count as small ones of ours need not become them
    low = text.lower()
    return any(word in low for word in _NAMING)


def _named(text: str) -> Iterator[Secret]:
    """Values behind names that speak of a secret: `password=x`, `--api-key x`, `'HF_TOKEN': 'x'`."""
    at = 0
    while (match := _NAMED.search(text, at)) is not None:
        start, end = match.span("value")
        front = _FRONT.search(text, max(0, match.start() - NAME), match.start())
        name = ("" if front is None else front.group()) + text[match.start() : match.end("end")]
        quote = match["quote"]
        if quote is not None:
            start += match["value"].index(quote) + len(quote)
        value = text[start:end]
        kind = _kind(match, name, value)
        # Where this is no secret, its value may yet be the name of one: `key=password=x`.
        at = max(end, match.end("end")) if kind else match.end("end")
        if kind:
            yield Secret(start, end, kind)


def _spoken(text: str) -> Iterator[Secret]:
    """Passwords in sentences; a word of prose is none, and behind nothing but a blank only `passphrase` takes any word."""
    for match in _SPOKEN.finditer(text):
        value = match["value"]
        if _PROSE.fullmatch(value) or _TRIVIAL.fullmatch(value):
            continue
        bare = not match["link"].strip() and not match["quote"]
        if not bare or match["word"].lower() == "passphrase" or _worn(value):
            yield Secret(*match.span("value"), "password")


def _abroad(text: str) -> Iterator[Secret]:
    """Values behind what other languages call a password, a key or a token."""
    if text.isascii():
        low = text.lower()
        if not any(word in low for word in _ABROAD_NAMING):
            return
    yield from (Secret(*m.span("value"), "password") for m in _ACCOUNT.finditer(text) if _worn(m["value"]))
    for match in _ABROAD.finditer(text):
        value, start = match["value"], match.start("value")
        if match["flag"] is not None and not _FRONT.search(text, max(0, match.start() - NAME), match.start())[
            0
        ].startswith("-"):  # type: ignore[index]
            # `heslo HF_TOKEN=…`: what names itself is taken out under its own name.
            if match["password"] is None or not _worn(value) or "=" in value:
                continue
        elif _TRIVIAL.fullmatch(value) or (match["password"] is None and not _worn(value)):
            continue
        yield Secret(start, match.end("value"), "password" if match["password"] is not None else "secret")


def _worn(value: str) -> bool:
    """Whether a value has letters and digits, as few words of a sentence and few counts have."""
    return len(value) >= 6 and re.search(r"\d", value) is not None and re.search(r"[A-Za-z]", value) is not None


def _tagged(text: str) -> Iterator[Secret]:
    for match in _TAG.finditer(text):
        if not _TRIVIAL.fullmatch(match["value"]) and not _MODEL_TOKEN.search(match["name"]):
            yield Secret(*match.span("value"), "secret")


def _kind(match: re.Match[str], name: str, value: str) -> str | None:
    if _TRIVIAL.fullmatch(value.strip()) or _MODEL_TOKEN.search(name):
        return None
    flag = match["flag"]
    if flag is not None and not name.startswith("-"):
        return None
    if match["password"] is not None:
        if name.lower().endswith(("pwd", "pw")) and (value.startswith("/") or value.replace(".", "").isdigit()):
            return None
        return "password"
    if match["strong"] is not None:
        if "credential" in match["strong"].lower() and value.startswith(("/", "~/", "./")):
            return None
        return None if value.isdigit() and len(value) < 8 else "secret"
    if match["weak"].lower() == "token" and (flag is not None or name.isupper()) and len(value) >= 6:
        return None if value.isdigit() else "token"
    if match["weak"].lower() == "token" and _worn(value):
        # Not long enough to look random; but who writes `token: abc123` means one.
        return "token"
    if match["weak"].lower() == "token" and flag is None and _plain_token(match, value):
        return "token"
    return "secret" if looks_random(value, allow_hex=match["weak"].lower() == "token") else None


def _plain_token(match: re.Match[str], value: str) -> bool:
    """Whether small letters alone behind `token=` may be one: not a piece of text that a parser or a tokenizer names."""
    if not re.fullmatch(r"[A-Za-z]{8,}", value):
        return False
    return _UNEXPECTED.search(match.string, max(0, match.start() - NAME), match.start()) is None


def _cut(text: str) -> Iterator[Secret]:
    """What a window cut in two: a random run at its very start, a vendor's prefix or a random run at its very end."""
    head = _EDGE_HEAD.search(text)
    if head is not None and looks_random(head.group().rjust(16, "0")) and _CLASS_NAME.search(text) is None:
        yield Secret(head.start(), head.end(), "cut secret")
    for pattern in (_CUT_PREFIX, _EDGE_TAIL):
        tail = pattern.search(text, len(text) - EDGE)
        if tail is not None and (pattern is _CUT_PREFIX or looks_random(tail.group().rjust(16, "0"))):
            yield Secret(tail.start(), tail.end(), "cut secret")
            return


def _telling(value: str) -> bool:
    """Whether a value is so much of its own that it is the same secret wherever it stands."""
    if value.startswith("/"):
        return False
    return len(value) >= 2 * KNOWN or (len(value) >= KNOWN and re.search(r"\d", value) is not None)


class SecretFilter:
    """Takes secrets out of texts and counts what it took, by kind.

    A value that is once seen as a secret is one wherever else it stands: learn all texts first, then clean them.
    """

    def __init__(self) -> None:
        self.removed: dict[str, int] = {}
        self._known: set[str] = set()
        self._looked: dict[str, list[Secret]] = {}
        """What was found in texts: names of files stand in a report a hundred times."""

    def learn(self, text: str) -> None:
        """Remembers the values of a text's secrets; short ones and plain words are not, they may be anything elsewhere."""
        for start, end, _ in self._find(text):
            # `user:password`, `Bearer token` and `NAME=value` hold one that may stand alone elsewhere.
            parts = re.split(r"[\s:]+", text[start:end])
            parts += [found[1] for part in parts if (found := _ASSIGNED.fullmatch(part)) is not None]
            self._known.update(part for part in parts if _telling(part))

    def clean(self, text: str) -> str:
        """The text with each secret replaced by `[removed:kind]`; unchanged where there is none."""
        found = self._find(text)
        if found:
            self.learn(text)
        elif not self._known:
            return text
        parts, at = [], 0
        for start, end, kind in found:
            self._count(kind)
            parts += [text[at:start], f"[removed:{kind}]"]
            at = end
        cleaned = "".join([*parts, text[at:]])
        for value in sorted(self._known, key=lambda v: (-len(v), v)):
            if value in cleaned:
                self._count("known secret")
                cleaned = cleaned.replace(value, "[removed:known secret]")
        return cleaned

    def _find(self, text: str) -> list[Secret]:
        found = self._looked.get(text)
        if found is None:
            if len(self._looked) >= MOST_LOOKED:
                self._looked.clear()  # a program that records for months says ever new things
            found = self._looked[text] = find_secrets(text)
        return found

    def _count(self, kind: str) -> None:
        self.removed[kind] = self.removed.get(kind, 0) + 1
