<?php

declare(strict_types=1);

namespace Ojs\Worker;

use function count;
use function get_debug_type;
use function is_array;
use function is_bool;
use function is_float;
use function is_int;
use function is_string;

/**
 * What a handler declares as its parameters: the job, and the job's arguments one by one.
 *
 * @internal
 */
final class Arguments
{
    /** @var list<array{name: string, type: ?string, isJob: bool, isOptional: bool, isNullable: bool, isVariadic: bool}> */
    private array $parameters = [];
    public readonly bool $isJobOnly;

    public function __construct(callable $handler)
    {
        $reflection = new \ReflectionFunction(\Closure::fromCallable($handler));
        foreach ($reflection->getParameters() as $number => $parameter) {
            $type = $parameter->getType();
            $name = $type instanceof \ReflectionNamedType ? $type->getName() : null;
            if ($parameter->isPassedByReference()) {
                throw new \InvalidArgumentException("the parameter \${$parameter->name} of a handler is by reference");
            }
            $isJob = $name === Job::class || ($number === 0 && $type === null);
            if ($type !== null && !$isJob && ($name === null || !$type->isBuiltin())) {
                throw new \InvalidArgumentException("the parameter \${$parameter->name} of a handler has a type that JSON "
                    . 'does not have; there are Job, string, int, float, bool, array, mixed, and these with ?');
            }
            $this->parameters[] = [
                'name' => $parameter->name, 'type' => $name, 'isJob' => $isJob,
                'isOptional' => $parameter->isOptional(), 'isNullable' => $type === null || $type->allowsNull(),
                'isVariadic' => $parameter->isVariadic(),
            ];
        }
        $this->isJobOnly = count($this->parameters) === 1 && $this->parameters[0]['isJob'];
    }

    /**
     * @return list<mixed>
     * @throws Discard when the job's arguments do not fit: each attempt would have the same
     */
    public function of(Job $job): array
    {
        if ($this->isJobOnly) {
            return [$job];
        }
        $values = [];
        $at = 0;
        foreach ($this->parameters as $parameter) {
            if ($parameter['isJob']) {
                $values[] = $job;
                continue;
            }
            do {
                if ($at >= count($job->args)) {
                    if (!$parameter['isOptional']) {
                        throw new Discard("the job has $at arguments, and none for \${$parameter['name']}",
                            type: 'InvalidArgs');
                    }
                    return $values;
                }
                $values[] = self::fitted($job->args[$at], $parameter, $at++);
            } while ($parameter['isVariadic']);
        }
        return $values;
    }

    /** @param array{name: string, type: ?string, isNullable: bool} $parameter */
    private static function fitted(mixed $value, array $parameter, int $at): mixed
    {
        $isFit = match ($parameter['type']) {
            null, 'mixed' => true,
            'string' => is_string($value), 'int' => is_int($value), 'float' => is_int($value) || is_float($value),
            'bool' => is_bool($value), 'array', 'iterable' => is_array($value),
            'null' => $value === null, 'true' => $value === true, 'false' => $value === false,
            default => false,
        };
        if (!$isFit && !($value === null && $parameter['isNullable'])) {
            throw new Discard('argument ' . ($at + 1) . " (\${$parameter['name']}) is " . get_debug_type($value)
                . " and should be {$parameter['type']}", type: 'InvalidArgs');
        }
        return $parameter['type'] === 'float' && is_int($value) ? (float) $value : $value;
    }
}
