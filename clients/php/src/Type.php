<?php

declare(strict_types=1);

namespace Ojs\Worker;

/**
 * The declared type of a parameter, and how JSON becomes a value of it: types of JSON, backed
 * enums, and classes whose constructor takes such types (its parameters are the members of a JSON
 * object).
 *
 * @internal
 */
final class Type
{
    private const OF_JSON = ['string', 'int', 'float', 'bool', 'array', 'mixed', 'null', BigInteger::class];

    /** @var list<string> */
    private readonly array $names;
    /**
     * @var array<class-string, array<string, array{self, bool}>> of constructors: types, and which
     *        are optional. Not of one object: a class may have members of its own type
     */
    private static array $members = [];

    /**
     * @param list<class-string> $outer classes that have this type as a member
     * @throws \DomainException if no JSON could become a value of this type
     */
    public function __construct(?\ReflectionType $type, private readonly string $parameter, array $outer = [])
    {
        $parts = $type instanceof \ReflectionUnionType ? $type->getTypes() : [$type ?? 'mixed'];
        $names = array_map(static fn (mixed $part): string => ltrim((string) $part, '?'), $parts);
        $this->names = array_unique([...$names, ...($type?->allowsNull() ? ['null'] : [])]);
        foreach ($this->names as $name) {
            if (!in_array($name, [...self::OF_JSON, ...$outer], true) && !is_subclass_of($name, \BackedEnum::class)) {
                self::$members[$name] ??= self::membersOf($name, $parameter, $outer);
            }
        }
    }

    /**
     * @param list<class-string> $outer
     * @return array<string, array{self, bool}>
     */
    private static function membersOf(string $class, string $of, array $outer): array
    {
        $reflection = class_exists($class) ? new \ReflectionClass($class) : null;
        if ($reflection === null || $reflection->isInternal() || !$reflection->isInstantiable()) {
            throw new \DomainException("its parameter \$$of is of type $class, which JSON does not have");
        }
        $members = [];
        foreach ($reflection->getConstructor()?->getParameters() ?? [] as $parameter) {
            $type = new self($parameter->getType(), $parameter->name, [...$outer, $class]);
            $members[$parameter->name] = [$type, $parameter->isOptional()];
        }
        return $members;
    }

    /** @throws InvalidArgs */
    public function fit(mixed $value, string $where): mixed
    {
        foreach ($this->names as $name) {
            $isClass = isset(self::$members[$name]);
            $fitted = $isClass ? $this->construct($name, $value, $where) : self::convert($name, $value);
            if ($fitted !== null || ($value === null && in_array($name, ['null', 'mixed'], true))) {
                return $fitted;
            }
        }
        $came = is_array($value) && !array_is_list($value) ? 'object' : get_debug_type($value);
        throw new InvalidArgs("$where (\${$this->parameter}): " . implode('|', $this->names) . " expected, $came came");
    }

    /** The value as one of this type; null if it is none. */
    private static function convert(string $name, mixed $value): mixed
    {
        $kind = get_debug_type($value);
        return match (true) {
            $name === $kind, $name === 'mixed' => $value,
            $name === 'float' && $kind === 'int' => (float) $value,
            // A backend may spell 2 as 2.0.
            $name === 'int' && $kind === 'float' && floor($value) === $value && abs($value) < 2 ** 53 => (int) $value,
            is_subclass_of($name, \BackedEnum::class) =>
                $kind === (string) (new \ReflectionEnum($name))->getBackingType() ? $name::tryFrom($value) : null,
            default => null,
        };
    }

    private function construct(string $class, mixed $value, string $where): ?object
    {
        if (!is_array($value) || ($value !== [] && array_is_list($value))) {
            return null;
        }
        $arguments = [];
        foreach (self::$members[$class] as $name => [$type, $isOptional]) {
            if (array_key_exists($name, $value)) {
                $arguments[$name] = $type->fit($value[$name], "$where.$name");
            } elseif (!$isOptional) {
                throw new InvalidArgs("$where.$name is missing");
            }
        }
        return new $class(...$arguments);
    }
}
