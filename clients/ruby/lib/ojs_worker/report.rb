# frozen_string_literal: true

module OjsWorker
  # What the backend, and the log, are told about an exception.
  # @api private
  module Report
    MAX_BACKTRACE_FRAMES = 50
    MAX_BACKTRACE_CHARS = 10_000
    MAX_MESSAGE_CHARS = 10_000
    OWN_FOLDER = File.join(__dir__, "")

    module_function

    # @return [Hash] the `error` of a fail frame
    def describe(error)
      described = { "code" => "handler_error", "retryable" => true }
      origin = error
      kind = nil
      message = message_of(error)
      if error.is_a?(Failure)
        origin = error.cause
        kind = error.type
        described["code"] = Wire.clean(error.code, 200)
        described["retryable"] = error.retryable?
        message = message_of(origin) if message.empty? && origin
        add_details(described, error)
      elsif error.is_a?(SystemExit)
        message = "the handler called exit(#{error.status})"
      end
      name = class_name(origin || error)
      described["type"] = Wire.clean(kind || name, 200)
      described["message"] = message.empty? ? name : message
      trace = backtrace(origin || error)
      described["backtrace"] = trace unless trace.empty?
      described
    end

    def add_details(described, error)
      return if error.details.nil?
      raise TypeError, "no Hash" unless error.details.is_a?(Hash)
      Wire.dump(error.details, Wire::MAX_DEPTH - 2)
      described["details"] = error.details
    rescue TypeError, ArgumentError, JSON::JSONError, EncodingError
      OjsWorker.log(:warn) { "the details of a #{class_name(error)} are no JSON object and are left out" }
    end

    # A whole text, whatever the program's own `message` does.
    def message_of(error)
      Wire.clean(error.message, MAX_MESSAGE_CHARS)
    rescue StandardError => e
      "(its message cannot be shown: #{e.class})"
    end

    # Our own classes by their last name, as every other client calls them.
    def class_name(error)
      name = error.class.name || error.class.to_s
      name.delete_prefix("OjsWorker::")
    end

    # The calls that led there, innermost first, as many as the Open Job Spec lets an error have.
    def backtrace(error)
      room = MAX_BACKTRACE_CHARS
      own_calls_left_out(error).first(MAX_BACKTRACE_FRAMES).map { |line| Wire.clean(line, 1000) }.take_while do |line|
        (room -= line.length) >= 0
      end
    end

    def own_calls_left_out(error)
      (error.backtrace || []).reject { |line| line.start_with?(OWN_FOLDER) }
    end

    # For the log: class, message and stack, and those of its causes.
    def in_full(error)
      lines = []
      seen = []
      while error && seen.length < 5 && !seen.include?(error)
        seen << error
        lines << "#{"caused by " if seen.length > 1}#{class_name(error)}: #{message_of(error)}"
        lines.concat(own_calls_left_out(error).first(MAX_BACKTRACE_FRAMES).map { |line| "    #{Wire.clean(line, 1000)}" })
        error = error.cause
      end
      lines.join("\n")
    end
  end
end
