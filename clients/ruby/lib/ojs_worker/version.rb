# frozen_string_literal: true

module OjsWorker
  VERSION = "0.1.0"
  # What ojs-init logs about this library.
  CLIENT = "ojs-worker-ruby/#{VERSION} (#{RUBY_ENGINE} #{RUBY_VERSION})".freeze
end
