<?php

declare(strict_types=1);

namespace Ojs\Worker\Tests;

/**
 * The functions that a file calls by a name of one part, in lower case.
 *
 * @return list<string>
 */
function calledFunctions(string $code): array
{
    $tokens = array_values(array_filter(
        \PhpToken::tokenize($code),
        static fn (\PhpToken $token): bool => !$token->isIgnorable(),
    ));
    $called = [];
    foreach ($tokens as $at => $token) {
        $isCall = $token->is(T_STRING) && ($tokens[$at + 1] ?? null)?->is('(');
        $isOther = [T_OBJECT_OPERATOR, T_NULLSAFE_OBJECT_OPERATOR, T_DOUBLE_COLON, T_FUNCTION, T_NEW];
        if ($isCall && !$tokens[$at - 1]->is($isOther)) {
            $called[strtolower($token->text)] = true;
        }
    }
    return array_keys($called);
}

test('each function of PHP that the library calls is imported, so that no job pays for looking it up', function (): void {
    $files = [...glob(__DIR__ . '/../src/*.php'), ...glob(__DIR__ . '/../src/*/*.php')];
    Tests::same(true, count($files) > 30, 'files of the library');
    foreach ($files as $file) {
        $code = file_get_contents($file);
        preg_match_all('/^use function (\w+);$/m', $code, $match);
        $called = calledFunctions($code);
        sort($called);
        $imported = array_map(strtolower(...), $match[1]);
        sort($imported);
        Tests::same($called, $imported, basename($file) . ':');
    }
});
