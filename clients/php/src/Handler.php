<?php

declare(strict_types=1);

namespace Ojs\Worker;

/**
 * A handler with its signature: the job, and the job's arguments one by one.
 *
 * @internal
 */
final class Handler
{
    /** @var list<Type> */
    private array $types = [];
    /** The position of the parameter that takes the job itself. */
    private ?int $jobAt = null;
    private ?\Closure $callable = null;
    private int $required = 0;
    private float $most;

    /**
     * @param callable|class-string|array{class-string, string} $handler a class is made by the
     *        container, at its first job in each process
     * @throws \InvalidArgumentException if no job could be passed to it
     */
    public function __construct(private mixed $handler, private readonly ?object $container, string $about)
    {
        if (is_string($handler) && class_exists($handler)) {
            $this->handler = [$handler, '__invoke'];
        }
        try {
            $this->read($this->reflect());
        } catch (\DomainException $error) {
            throw new \InvalidArgumentException("the handler of $about cannot work: {$error->getMessage()}. "
                . 'A handler looks like: function (Job $job, string $to, int $count = 1): mixed');
        }
    }

    private function reflect(): \ReflectionFunctionAbstract
    {
        if (is_array($this->handler) && method_exists(...$this->handler)) {
            return new \ReflectionMethod(...$this->handler);
        }
        if (!is_callable($this->handler)) {
            throw new \DomainException('it is neither callable nor a class with that method');
        }
        return new \ReflectionFunction(\Closure::fromCallable($this->handler));
    }

    private function read(\ReflectionFunctionAbstract $function): void
    {
        if ($function->isGenerator()) {
            throw new \DomainException('it has `yield` in it, so that a call would not run it');
        }
        foreach ($function->getParameters() as $position => $parameter) {
            $type = $parameter->getType();
            $name = $parameter->name;
            if ((string) $type === Job::class || ($position === 0 && $type === null && $name === 'job')) {
                $this->jobAt = $position;
                continue;
            }
            if ($position === 0 && $type === null) {
                throw new \DomainException("its first parameter \$$name has no type: write Job \$$name for the job, "
                    . "mixed \$$name for the first argument");
            }
            $this->types[] = new Type($type, $name);
            $this->required += $parameter->isOptional() ? 0 : 1;
        }
        $this->most = $function->isVariadic() ? INF : count($this->types);
    }

    public function call(Job $job): mixed
    {
        $this->callable ??= $this->resolve();
        return ($this->callable)(...($this->types === [] && $this->jobAt === 0 ? [$job] : $this->arguments($job)));
    }

    private function resolve(): \Closure
    {
        if (is_array($this->handler) && is_string($this->handler[0])) {
            [$class, $method] = $this->handler;
            return [$this->container?->get($class) ?? new $class(), $method](...);
        }
        return \Closure::fromCallable($this->handler);
    }

    /**
     * @return list<mixed>
     * @throws InvalidArgs
     */
    private function arguments(Job $job): array
    {
        $came = count($job->args);
        if ($came < $this->required || $came > $this->most) {
            $expected = $this->most === INF ? "{$this->required} or more"
                : implode(' to ', array_unique([$this->required, (int) $this->most]));
            throw new InvalidArgs("args: $expected expected, $came came");
        }
        $values = [];
        foreach ($job->args as $position => $value) {
            // The last type is that of all further arguments of a variadic handler.
            $values[] = $this->types[min($position, count($this->types) - 1)]->fit($value, "args[$position]");
        }
        if ($this->jobAt !== null) {
            array_splice($values, $this->jobAt, 0, [$job]);
        }
        return $values;
    }
}
