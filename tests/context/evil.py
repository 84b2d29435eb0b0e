"""Two hundred expressions that want too much: time, memory, depth, or all of it.

Each is made by a small function from a size, so that the same idea is tried where a limit just holds and where it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from memwell.context.expression import MAX_SOURCE

Maker = Callable[[int], str]

A = '"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"'


def _nested(opening: str, inner: str, closing: str) -> Maker:
    return lambda size: opening * size + inner + closing * size


def _doubled(start: str, step: str) -> Maker:
    """Something that is made twice as large, again and again: `step` says how, of `$x`."""
    return lambda size: f"($x := {start}; " + f"$x := {step}; " * size + "$count($x) + $length($string($x)))"


RECURSION: list[Maker] = [
    lambda size: "($f := function($n) { $f($n + 1) }; $f(0))",
    lambda size: "($f := function($n) { 1 + $f($n + 1) }; $f(0))",
    lambda size: "($f := function($n) { [$f($n), $f($n)] }; $f(0))",
    lambda size: f"($f := function($n) {{ $n < 2 ? $n : $f($n - 1) + $f($n - 2) }}; $f({size}))",
    lambda size: "($f := function($n) { $g($n) }; $g := function($n) { $f($n) }; $f(0))",
    lambda size: "($f := function($n) { 1 + $g($n) }; $g := function($n) { 1 + $f($n) }; $f(0))",
    lambda size: "($y := function($f) { $f($f) }; $y($y))",
    lambda size: (
        f"($a := function($m, $n) {{ $m = 0 ? $n + 1 : $n = 0 ? $a($m - 1, 1) : $a($m - 1, $a($m, $n - 1)) }}; $a(3, {size}))"
    ),
    lambda size: "($f := function($x) { $map([$x, $x], $f) }; $f(1))",
    lambda size: "($f := function($x) { $x ~> $f }; $f(1))",
    lambda size: '($f := function($o) { $f($merge([$o, {"k" & $count($keys($o)): $o}])) }; $f({}))',
    lambda size: '($f := function($s) { $f($s & $s) }; $f("x"))',
    lambda size: "($f := function($l) { $f($append($l, $l)) }; $f([1]))",
    lambda size: "($f := function($o) { $f([$o]) }; $f(1))",
    lambda size: '($f := function($o) { $f({"a": $o}) }; $f(1))',
    lambda size: "($f := function($x) { $reduce([1, 2], function($a, $b) { $f($b) }) }; $f(1))",
    lambda size: "($f := function($x) { $sort([1, 2], function($a, $b) { $f($a) }) }; $f(1))",
    lambda size: '($f := function($x) { $replace("a", /a/, function($m) { $f($m) }) }; $f(1))',
    lambda size: '($f := function($x) { $each({"a": 1}, $f) }; $f(1))',
    lambda size: "($f := function($x) { $filter([1], function($v) { $f($v) }) }; $f(1))",
]
RANGES: list[Maker] = [
    lambda size: f"[1..{10**size}]",
    lambda size: f"$sum([1..{10**size}])",
    lambda size: f"$count([1..{10**size}].($ * 2))",
    lambda size: f"$map([1..{10**size}], function($v) {{ [1..1000] }})",
    lambda size: f"[1..{10**size}].[1..{10**size}]",
    lambda size: f"$reduce([1..{10**size}], function($a, $b) {{ $append($a, $b) }}, [])",
    lambda size: f"$sort([1..{10**size}], function($a, $b) {{ $a < $b }})",
    lambda size: f"$distinct([1..{10**size}])",
    lambda size: f'$join([1..{10**size}].$string(), "")',
    lambda size: f"$reverse([1..{10**size}])[0]",
    lambda size: f"$shuffle([1..{10**size}])[0]",
    lambda size: f"$zip([1..{10**size}], [1..{10**size}])",
    lambda size: f'$merge([1..{10**size}].{{"k" & $string($): $}})',
    lambda size: f"[1..{10**size}]{{$string($): $}}",
    lambda size: f"[1..{10**size}]^(>$)",
    lambda size: f"[1..{10**size}][$ % 7 = 0]",
    lambda size: f"[1..{10**size}]#$i[$i % 7 = 0]",
    lambda size: f"([1..{10**size}])@$a.([1..{10**size}])@$b[$a = $b].$a",
]
STRINGS: list[Maker] = [
    lambda size: f'$pad("x", {10**size})',
    lambda size: f'$pad("x", -{10**size}, "abc")',
    lambda size: f'$length($pad("x", {10**size}))',
    lambda size: f'$uppercase($pad("x", {10**size}))',
    lambda size: f'$split($pad("x", {10**size}), "")',
    lambda size: f'$replace($pad("x", {10**size}), " ", "yyyyyyyyyy")',
    lambda size: f'$replace($pad("x", {10**size}), / /, function($m) {{ "y" }})',
    lambda size: f'$base64encode($pad("x", {10**size}))',
    lambda size: f'$encodeUrl($pad("é", {10**size}, "é"))',
    lambda size: f'$contains($pad("x", {10**size}), "y")',
    lambda size: f'$match($pad("x", {10**size}), / /)',
    lambda size: f'$toMillis($pad("2", {10**size}, "1"))',
    lambda size: f'$number($pad("2", {10**size}, "1"))',
    lambda size: f'$trim($pad("x", {10**size}))',
    lambda size: f'$join([$pad("x", {10**size}), $pad("x", {10**size})], $pad("x", {10**size}))',
    lambda size: f'$substring($pad("x", {10**size}), 3)',
    lambda size: f'$toMillis("2020", $pad("[Y]", {10**size}, "[M]"))',
    lambda size: f'$formatNumber(1, $pad("#", {10**size}, "0"))',
    lambda size: f'$formatInteger(1, $pad("#", {10**size}, "0"))',
    lambda size: f'$fromMillis(0, $pad("[Y]", {10**size}, "[Y]"))',
]
DOUBLED: list[Maker] = [
    _doubled('"x"', "$x & $x"),
    _doubled("[1]", "$append($x, $x)"),
    _doubled("[1]", "[$x, $x]"),
    _doubled('"x"', "$join([$x, $x, $x])"),
    _doubled('"x"', '$replace($x, "x", "xx")'),
    _doubled('{"a": 1}', '{"a": $x, "b": $x}'),
    _doubled("[1]", "$map($x, function($v) { [$v, $v] })"),
    _doubled("2", "$x * $x"),
    _doubled('"x"', "$base64encode($x & $x)"),
    _doubled('"<"', "$encodeUrlComponent($x & $x)"),
]
REGEXES: list[Maker] = [
    lambda size: f'$match($pad("", {size}, "a") & "!", /(a+)+$/)',
    lambda size: f'$contains($pad("", {size}, "a") & "!", /^(a|aa)+$/)',
    lambda size: f'$contains($pad("", {size}, "a") & "!", /^(a|a?)+$/)',
    lambda size: f'$replace($pad("", {size}, "a") & "!", /(.*a){{12}}$/, "b")',
    lambda size: f'$split($pad("", {size}, "a") & "!", /(a*)*b/)',
    lambda size: f'$match($pad("", {size}, "x"), /(x+x+)+y/)',
    lambda size: f'$contains($pad("", {size}, "0"), /^(([a-z])+.)+[A-Z]([a-z])+$/)',
    lambda size: f"$contains({A}, /a{{{size}}}{{{size}}}{{{size}}}/)",
    lambda size: f"$match({A}, /" + "(" * size + "a" + ")*" * size + "/)",
    lambda size: f"$match({A}, /" + "a?" * size + "a" * size + "/)",
    lambda size: f'$match($pad("", {size}, "a"), /a*?a*?a*?a*?a*?a*?a*?b/)',
    lambda size: f'$match($pad("", {size}, "a"), /(?=(a+))a*b/)',
    lambda size: f'$match($pad("", {size}, "a"), /(a*)*\\\\1b/)',
    lambda size: f'$replace($pad("", {size}, "a"), /a|b|c/i, function($m) {{ $match($m.match, /(a+)+$/).match }})',
]
NESTED: list[Maker] = [
    _nested("(", "1", ")"),
    _nested("[", "1", "]"),
    _nested('{"a":', "1", "}"),
    _nested("-", "1", ""),
    _nested("function($x) {", "1", "}"),
    _nested("$string(", "1", ")"),
    _nested("$not(", "true", ")"),
    _nested("true ? ", "1", " : 2"),
    _nested("a[", "0", "]"),
    _nested("1 + (", "1", ")"),
    _nested("|a|{", '"b": 1', "}|"),
    _nested("(((", "", ""),
    _nested("[[[", "", ""),
    _nested('{"a":{', "", ""),
    lambda size: "1" + " + 1" * size,
    lambda size: "$x" + ".a" * size,
    lambda size: "$x" + "[0]" * size,
    lambda size: "1" + " ~> $string" * size,
    lambda size: "$" + ".**" * (size // 8),
    lambda size: "(" + "$a := 1;" * (size // 2) + ")",
    lambda size: "[" + "1," * size + "1]",
    lambda size: '"' + "\\u0041" * (size // 3) + '"',
    lambda size: "%." * size + "a",
    lambda size: "/*" * size,
    lambda size: "a^(" * size,
    lambda size: "function($x)<" + "a<" * size,
    lambda size: "9" * size,
    lambda size: "`" * size,
]
NUMBERS: list[Maker] = [
    lambda size: f"$power(10, {10**size})",
    lambda size: f"$power({10**size}, {10**size})",
    lambda size: f"1e{10**size}",
    lambda size: f"$formatNumber(1e{size * 10}, '#,##0.{'0' * 300}')",
    lambda size: f"$formatInteger(1e{size * 10}, 'w')",
    lambda size: f"$formatInteger(1e{size * 10}, 'I')",
    lambda size: f"$formatInteger({10**size}, 'A')",
    lambda size: f"$formatBase({10**size}, 2)",
    lambda size: f"$fromMillis(1e{size * 3}, '[Y9,9-*]')",
    lambda size: f"$fromMillis({10**size}, '[YI]-[MI]-[DI] [YW,*-*]')",
    lambda size: f"$parseInteger('{'one hundred thousand ' * 200}', 'w')",
    lambda size: f"$parseInteger('{'M' * 5000}', 'I')",
    lambda size: f"$toMillis('{'1' * 5000}', '[Y]')",
    lambda size: f"$toMillis('{'twenty ' * 500}', '[Yw]')",
    lambda size: f"$round(1.5, {10**size})",
    lambda size: f"$number('0x{'f' * 5000}')",
    lambda size: f"$sqrt({10**size} * 1e300 * 1e300)",
]
TRANSFORMS: list[Maker] = [
    lambda size: f'{{"a": [1..{10**size}]}} ~> |a|{{"b": 1}}|',
    lambda size: f'[1..{10**size}].{{"a": $}} ~> |$|{{"b": [1..1000]}}|',
    lambda size: (
        f'($t := |**|{{"x": **}}|; $o := {{"a": {{"b": {{"c": [1..{10**size}]}}}}}}; $o ~> $t ~> $t ~> $t ~> $t)'
    ),
    lambda size: f'($t := |$|{{"a": $, "b": $}}|; {{}} {"~> $t " * size})',
    lambda size: f"($o := $reduce([1..{10**size}], function($a, $b) {{ {{'x': $a}} }}, 1); $string($o))",
    lambda size: f"$spread([1..{10**size}].{{'a': $, 'b': $}})",
    lambda size: f"$sift($merge([1..{10**size}].{{'k' & $: $}}), function($v) {{ $v > 1 }})",
    lambda size: f"[1..{10**size}].**.**.**",
    lambda size: f"$string([1..{10**size}], true)",
]
SIZES: list[tuple[list[Maker], tuple[int, ...]]] = [
    (RECURSION, (40,)),
    (RANGES, (5, 6, 9)),
    (STRINGS, (6, 7, 9)),
    (DOUBLED, (16, 24, 40)),
    (REGEXES, (30, 100_000)),
    (NESTED, (900, 4_000)),
    (NUMBERS, (7, 30)),
    (TRANSFORMS, (5, 6)),
]


def _all() -> Iterator[str]:
    for makers, sizes in SIZES:
        for maker in makers:
            for size in sizes:
                source = f"={maker(size)}"
                if len(source) <= MAX_SOURCE:
                    yield source


def evil(count: int = 200) -> list[str]:
    """So many expressions, spread over all kinds and sizes."""
    every = list(dict.fromkeys(_all()))
    return [every[number * len(every) // count] for number in range(count)]
