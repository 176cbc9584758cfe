<?php

declare(strict_types=1);

namespace Ojs\Worker\Messenger;

use Ojs\Worker\Client;
use Symfony\Component\Messenger\Exception\InvalidArgumentException;
use Symfony\Component\Messenger\Transport\Serialization\SerializerInterface;
use Symfony\Component\Messenger\Transport\TransportFactoryInterface;
use Symfony\Component\Messenger\Transport\TransportInterface;

/**
 * Makes transports of DSNs like `ojs://backend:8080?queue=mail`; `ojs+https://` for TLS,
 * `ojs://default` for OJS_URL.
 *
 * Options, in the DSN or in the configuration: queue, token, type, and timeout in seconds.
 */
final class OjsTransportFactory implements TransportFactoryInterface
{
    private const DEFAULTS = ['queue' => 'default', 'token' => null, 'type' => OjsTransport::TYPE, 'timeout' => 10.0];

    public function createTransport(string $dsn, array $options, SerializerInterface $serializer): TransportInterface
    {
        [$address, $query] = explode('?', $dsn, 2) + [1 => ''];
        parse_str($query, $inDsn);
        unset($options['transport_name']);
        $unknown = array_diff_key($inDsn + $options, self::DEFAULTS);
        if ($unknown !== []) {
            $names = implode(', ', array_keys($unknown));
            throw new InvalidArgumentException("unknown option of an ojs:// transport: $names"
                . '; the options are ' . implode(', ', array_keys(self::DEFAULTS)));
        }
        $given = $inDsn + $options + self::DEFAULTS;
        $url = preg_replace(['#^ojs://#', '#^ojs\+(https?)://#'], ['http://', '$1://'], rtrim($address, '/'));
        $client = new Client($url === 'http://default' ? null : $url, $given['token'], (float) $given['timeout']);
        return new OjsTransport($client, $serializer, $given['queue'], $given['type']);
    }

    public function supports(string $dsn, array $options): bool
    {
        return preg_match('#^ojs(\+https?)?://#', $dsn) === 1;
    }
}
