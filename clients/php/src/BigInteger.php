<?php

declare(strict_types=1);

namespace Ojs\Worker;

/**
 * An integer beyond PHP's 64 bits, as it came in a job: exact, digit by digit.
 *
 * It goes out again as the same JSON number. To calculate: `gmp_init((string) $number)`, or bcmath.
 */
final class BigInteger implements \JsonSerializable, \Stringable
{
    /** @internal */
    public function __construct(private readonly string $digits)
    {}

    public function __toString(): string
    {
        return $this->digits;
    }

    /**
     * A JSON number in results and checkpoints; a string of digits in a `json_encode` of the
     * program.
     */
    public function jsonSerialize(): string
    {
        return Json::digits($this->digits);
    }
}
