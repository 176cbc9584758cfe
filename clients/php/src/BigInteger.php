<?php

declare(strict_types=1);

namespace Ojs\Worker;

use function preg_match;

/**
 * A whole number beyond PHP's int (64 bits), as it came in a job: exact, digit by digit.
 *
 * It goes out again as the same JSON number. To calculate: `gmp_init((string) $number)`, or bcmath.
 */
final class BigInteger implements \JsonSerializable, \Stringable
{
    /** @param string $digits the number in decimal */
    public function __construct(private readonly string $digits)
    {
        if (preg_match('/^(?:0|-?[1-9][0-9]*)$/D', $digits) !== 1) {
            throw new \InvalidArgumentException('a BigInteger is made of decimal digits, without leading zeros');
        }
    }

    public function __toString(): string
    {
        return $this->digits;
    }

    /** In a result or a checkpoint the number itself; in a json_encode of yours its digits as a string. */
    public function jsonSerialize(): string
    {
        return Json::numberMark() . $this->digits;
    }
}
