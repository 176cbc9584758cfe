# frozen_string_literal: true

require "json"
require "net/http"
require "securerandom"
require "time"
require "uri"

module OjsWorker
  # Enqueues jobs over the backend's HTTP API. Any thread may use it.
  #
  #     OjsWorker::Client.new.enqueue("email.send", ["a@b.c", 2], queue: "mail")
  class Client
    # Seconds before the second try; the pause doubles, and a part of it is random.
    FIRST_PAUSE = 0.1
    # Seconds: the longest pause, whatever `Retry-After` says.
    MOST_PAUSE = 5.0
    # Answers after which another try may succeed.
    PASSING = [429, 500, 502, 503, 504].freeze
    NETWORK = [SystemCallError, IOError, Timeout::Error, SocketError, Net::ProtocolError, OpenSSL::SSL::SSLError,
               Net::HTTPBadResponse, Net::HTTPHeaderSyntaxError].freeze

    # @param url [String] the backend; OJS_URL by default
    # @param token [String, nil] the bearer token; OJS_ENQUEUE_TOKEN by default, else OJS_AUTH_TOKEN
    # @param tries [Integer] most requests for a job, 1 or more
    # @param timeout [Numeric] seconds to connect, and seconds for the answer
    # @raise [ArgumentError] without a URL
    def initialize(url: ENV.fetch("OJS_URL", nil), token: nil, tries: 4, timeout: 10)
      @uri = URI("#{url.to_s.sub(%r{(/ojs/v1)?/*\z}, "")}/ojs/v1/jobs")
      raise ArgumentError, "no http:// or https:// URL of a backend: set OJS_URL" unless @uri.is_a?(URI::HTTP)
      @token = [token, *ENV.values_at("OJS_ENQUEUE_TOKEN", "OJS_AUTH_TOKEN")].find { |each| each.to_s != "" }&.strip
      @tries, @timeout = tries, timeout
    end

    # @return [String] an id for a new job: a UUIDv7
    def self.new_id
      random = SecureRandom.hex(10)
      time = format("%012x", (Time.now.to_r * 1000).to_i)
      "#{time[0, 8]}-#{time[8, 4]}-7#{random[0, 3]}-#{"89ab"[random[3].hex & 3]}#{random[4, 3]}-#{random[7, 12]}"
    end

    # Enqueue a job.
    #
    # A job with an `id` is sent again after a passing error, because the backend takes an id once.
    # A job without one is sent once: the backend may have accepted it although no answer came.
    # @param type [String] the job's type
    # @param args [Array] JSON
    # @param id [String, nil] see {Client.new_id}; nil: the backend chooses
    # @param meta [Hash, nil] JSON that travels with the job
    # @param options [Hash] queue, delay_until (a Time), priority, retry, timeout_ms, ...
    # @return [String] the job's id
    # @raise [EnqueueError] if the backend refuses the job or cannot be reached
    # @raise [ArgumentError, TypeError] for what is no JSON
    def enqueue(type, args = [], id: nil, meta: nil, **options)
      options = options.transform_values { |value| value.respond_to?(:iso8601) ? value.to_time.utc.iso8601(3) : value }
      job = { id:, type:, args:, meta:, options: (options unless options.empty?) }.compact
      body = JSON.generate(Wire.check(job))
      (1..).each do |try|
        answer, error = request(body)
        enqueued = find(answer, "job", "id") if answer.is_a?(Net::HTTPSuccess)
        # A unique policy may refuse the job because of another one. Else an earlier try was accepted.
        existing = find(answer, "error", "details", "existing_job_id") || id
        enqueued ||= id if try > 1 && answer&.code == "409" && existing == id
        return enqueued if enqueued
        raise failure(answer, error) if id.nil? || try >= @tries || (answer && !PASSING.include?(answer.code.to_i))
        sleep(pause(answer, try))
      end
    end

    private

    # @return [Array(Net::HTTPResponse, Exception)] one of them is nil
    def request(body)
      post = Net::HTTP::Post.new(@uri, "Content-Type" => "application/json", "Accept" => "application/json")
      post["Authorization"] = "Bearer #{@token}" if @token
      post.body = body
      options = { use_ssl: @uri.scheme == "https", open_timeout: @timeout, read_timeout: @timeout, max_retries: 0 }
      [Net::HTTP.start(@uri.hostname, @uri.port, **options) { |http| http.request(post) }, nil]
    rescue *NETWORK => e
      [nil, e]
    end

    def pause(answer, try)
      wanted = answer && Float(answer["Retry-After"], exception: false)
      (wanted || (FIRST_PAUSE * (2**(try - 1)) * rand(0.5..1.0))).clamp(0, MOST_PAUSE)
    end

    def failure(answer, error)
      code, message = error ? [error.class, error.message] : %w[code message].map { |name| find(answer, "error", name) }
      message ||= "the answer has no job" if answer.is_a?(Net::HTTPSuccess)
      text = "not enqueued at #{@uri.host}:#{@uri.port}: #{[answer&.code, code, message].compact.join(" ")}"
      EnqueueError.new(Wire.line(text, 1000), status: answer&.code&.to_i, code: (code if answer))
    end

    def find(answer, *path)
      JSON.parse(answer.body).dig(*path)
    rescue StandardError # No answer, or some other program's.
      nil
    end
  end
end
