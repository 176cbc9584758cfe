# frozen_string_literal: true

require "json"
require "net/http"
require "tmpdir"
require "uri"
require_relative "../ojs_worker"

module OjsWorker
  # For tests with a backend: `require "ojs_worker/testing"`. Tests of a handler alone need only {Worker#perform}.
  module Testing
    # There is no ojs-devserver, or it does not start.
    class NoDevserver < Error; end

    # Start `ojs-devserver`, the backend for development, if it is there: OJS_DEVSERVER names it, or it is on PATH.
    #
    #     OjsWorker::Testing.devserver do |server|
    #       id = server.enqueue("email.send", ["a@b.c", "hello"])
    #       ...
    #       assert_equal("completed", server.job(id)["state"])
    #     end
    #
    # @param options [Array<String>] further options of `ojs-devserver serve`
    # @yieldparam server [Devserver] is closed at the block's end
    # @return [Devserver, Object] without a block the server, to be closed; else what the block returns
    # @raise [NoDevserver]
    def self.devserver(*options)
      server = Devserver.new(options)
      return server unless block_given?
      begin
        yield server
      ensure
        server.close
      end
    end

    # A running ojs-devserver.
    class Devserver
      # Seconds that it may take to start, and to end.
      PATIENCE = 10.0

      # @return [String] where it listens: what a worker's OJS_URL is
      attr_reader :url

      # @api private
      def initialize(options)
        program = Devserver.program
        @folder = Dir.mktmpdir("ojs-devserver-")
        file = File.join(@folder, "url")
        log = File.join(@folder, "log")
        @pid = Process.spawn(program, "serve", "--listen", "127.0.0.1:0", "--port-file", file, *options, in: File::NULL, out: log, err: log)
        @url = wait_for(file, log).chomp
      rescue SystemCallError => e
        raise NoDevserver, "#{program} does not start: #{e.message}"
      end

      # Enqueue a job.
      # @param type [String]
      # @param args [Array]
      # @param meta [Hash, nil]
      # @param options [Hash] those of the Open Job Spec: queue, timeout_ms, retry, ...
      # @return [String] the job's id
      def enqueue(type, args = [], meta: nil, **options)
        body = { type: type, args: args, options: options }
        body[:meta] = meta if meta
        request = Net::HTTP::Post.new("/ojs/v1/jobs", "Content-Type" => "application/json")
        request.body = JSON.generate(body)
        answer_to(request)["job"].fetch("id")
      end

      # @param id [String]
      # @return [Hash] all about the job: `state`, `result`, `errors` and so on
      def job(id)
        answer_to(Net::HTTP::Get.new("/ojs/v1/jobs/#{URI.encode_www_form_component(id)}"))["job"]
      end

      # End it, and forget all jobs.
      def close
        return unless @pid
        Process.kill("TERM", @pid)
        deadline = OjsWorker.now + PATIENCE
        until Process.wait(@pid, Process::WNOHANG)
          Process.kill("KILL", @pid) if OjsWorker.now > deadline
          sleep(0.01)
        end
        @pid = nil
        FileUtils.remove_entry(@folder)
      end

      # @api private
      def self.program
        named = ENV.fetch("OJS_DEVSERVER", "")
        candidates = named.empty? ? ENV.fetch("PATH", "").split(File::PATH_SEPARATOR).map { |dir| File.join(dir, "ojs-devserver") } : [named]
        found = candidates.find { |path| File.file?(path) && File.executable?(path) }
        return found if found
        where = named.empty? ? "ojs-devserver is not on PATH" : "OJS_DEVSERVER names #{named}, which is no program"
        raise NoDevserver, "#{where}: it comes with ojs-init; put it on PATH, or name it in OJS_DEVSERVER"
      end

      private

      def wait_for(file, log)
        deadline = OjsWorker.now + PATIENCE
        # The file is there whole or not at all.
        until File.exist?(file)
          if Process.wait(@pid, Process::WNOHANG)
            @pid = nil
            raise NoDevserver, "ojs-devserver has ended: #{Wire.clean(File.read(log), 1000).strip}"
          end
          if OjsWorker.now > deadline
            close
            raise NoDevserver, "ojs-devserver cannot be reached within #{PATIENCE} s"
          end
          sleep(0.01)
        end
        File.read(file)
      end

      def answer_to(request)
        uri = URI(@url)
        answer = Net::HTTP.start(uri.host, uri.port, open_timeout: PATIENCE, read_timeout: PATIENCE) { |http| http.request(request) }
        return JSON.parse(answer.body) if answer.is_a?(Net::HTTPSuccess)
        raise Error, "#{request.method} #{request.path}: #{answer.code} #{Wire.clean(answer.body, 500)}"
      end
    end
  end
end
