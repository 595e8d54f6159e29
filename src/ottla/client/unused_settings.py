"""Kafka's client settings that this client does not act on: taken without effect, or refused with the reason."""

# Tuning, metrics and the Java runtime: a program behaves the same without them.
WITHOUT_EFFECT = frozenset(
    {
        "auto_include_jmx_reporter", "connections_max_idle_ms", "enable_metrics_push",
        "internal_throw_on_fetch_stable_offset_unsupported", "metadata_max_idle_ms",
        "metadata_recovery_rebootstrap_trigger_ms", "metric_reporters", "metrics_num_samples",
        "metrics_recording_level", "metrics_sample_window_ms", "partitioner_adaptive_partitioning_enable",
        "partitioner_availability_timeout_ms", "receive_buffer_bytes", "send_buffer_bytes",
        "socket_connection_setup_timeout_max_ms", "ssl_keymanager_algorithm", "ssl_provider",
        "ssl_secure_random_implementation", "ssl_trustmanager_algorithm",
        # librdkafka's
        "api_version_request", "broker_version_fallback", "debug", "log_level",
    }
)  # fmt: skip

_JAVA = "it names a Java class, which cannot run here"
_OAUTH = "this client fetches no tokens; fetch one and give it as ottla.sasl.oauthbearer.token"
_KERBEROS = "tickets come from the cache or from a keytab, and the Kerberos library renews them"

# Name: what Kafka takes it to be by default (then nothing changes, and it is taken), and why another is refused.
REFUSED: dict[str, tuple[str, str]] = {
    "bootstrap_controllers": ("", "controllers are reached through brokers; set bootstrap.servers"),
    "client_dns_lookup": ("use_all_dns_ips", "every address of a name is tried"),
    "config_providers": ("", _JAVA),
    "interceptor_classes": ("", _JAVA),
    "metadata_recovery_strategy": ("rebootstrap", "bootstrap.servers are always asked again"),
    "partitioner_ignore_keys": ("false", "set partitioner to a function of your own instead"),
    "sasl_client_callback_handler_class": ("", _JAVA),
    "sasl_kerberos_kinit_cmd": ("/usr/bin/kinit", _KERBEROS),
    "sasl_kerberos_min_time_before_relogin": ("60000", _KERBEROS),
    "sasl_kerberos_ticket_renew_jitter": ("0.05", _KERBEROS),
    "sasl_kerberos_ticket_renew_window_factor": ("0.8", _KERBEROS),
    "sasl_login_callback_handler_class": ("", _JAVA),
    "sasl_login_class": ("", _JAVA),
    "sasl_login_connect_timeout_ms": ("", _OAUTH),
    "sasl_login_read_timeout_ms": ("", _OAUTH),
    "sasl_login_refresh_buffer_seconds": ("300", _OAUTH),
    "sasl_login_refresh_min_period_seconds": ("60", _OAUTH),
    "sasl_login_refresh_window_factor": ("0.8", _OAUTH),
    "sasl_login_refresh_window_jitter": ("0.05", _OAUTH),
    "sasl_login_retry_backoff_max_ms": ("10000", _OAUTH),
    "sasl_login_retry_backoff_ms": ("100", _OAUTH),
    "sasl_oauthbearer_assertion_algorithm": ("RS256", _OAUTH),
    "sasl_oauthbearer_assertion_claim_aud": ("", _OAUTH),
    "sasl_oauthbearer_assertion_claim_exp_seconds": ("300", _OAUTH),
    "sasl_oauthbearer_assertion_claim_iss": ("", _OAUTH),
    "sasl_oauthbearer_assertion_claim_jti_include": ("false", _OAUTH),
    "sasl_oauthbearer_assertion_claim_nbf_seconds": ("60", _OAUTH),
    "sasl_oauthbearer_assertion_claim_sub": ("", _OAUTH),
    "sasl_oauthbearer_assertion_file": ("", _OAUTH),
    "sasl_oauthbearer_assertion_private_key_file": ("", _OAUTH),
    "sasl_oauthbearer_assertion_private_key_passphrase": ("", _OAUTH),
    "sasl_oauthbearer_assertion_template_file": ("", _OAUTH),
    "sasl_oauthbearer_client_credentials_client_id": ("", _OAUTH),
    "sasl_oauthbearer_client_credentials_client_secret": ("", _OAUTH),
    "sasl_oauthbearer_clock_skew_seconds": ("30", _OAUTH),
    "sasl_oauthbearer_expected_audience": ("", _OAUTH),
    "sasl_oauthbearer_expected_issuer": ("", _OAUTH),
    "sasl_oauthbearer_header_urlencode": ("false", _OAUTH),
    "sasl_oauthbearer_jwks_endpoint_refresh_ms": ("3600000", _OAUTH),
    "sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms": ("10000", _OAUTH),
    "sasl_oauthbearer_jwks_endpoint_retry_backoff_ms": ("100", _OAUTH),
    "sasl_oauthbearer_jwks_endpoint_url": ("", _OAUTH),
    "sasl_oauthbearer_jwt_retriever_class": (
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        _OAUTH,
    ),
    "sasl_oauthbearer_jwt_validator_class": (
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        _OAUTH,
    ),
    "sasl_oauthbearer_scope": ("", _OAUTH),
    "sasl_oauthbearer_scope_claim_name": ("scope", _OAUTH),
    "sasl_oauthbearer_sub_claim_name": ("sub", _OAUTH),
    "sasl_oauthbearer_token_endpoint_url": ("", _OAUTH),
    "security_providers": ("", _JAVA),
    "share_acknowledgement_mode": ("implicit", "it is a setting of ShareConsumer"),
    "share_acquire_mode": ("BATCH_OPTIMIZED", "it is a setting of ShareConsumer"),
    "ssl_cipher_suites": ("", "the suites are OpenSSL's defaults"),
    "ssl_engine_factory_class": ("", _JAVA),
    "ssl_keystore_certificate_chain": ("", "put it into a PEM file and set ssl.certificate.location"),
    "ssl_keystore_key": ("", "put it into a PEM file and set ssl.key.location"),
    "ssl_keystore_password": ("", "PEM files have none; the key's is ssl.key.password"),
    "ssl_truststore_password": ("", "PEM files have none"),
    "transaction_two_phase_commit_enable": ("false", "two-phase commit is not there"),
}
# Admin alone has no number of tries.
ADMIN_REFUSED = {
    "retries": ("2147483647", "the time is bounded by default.api.timeout.ms, not the number of tries")
}
# Of a consumer, and refused by a share consumer whatever their value, as by Kafka's own.
_BY_THE_GROUP = "the broker decides it for a share group: ottla config set group GROUP "
SHARE_REFUSED = {
    "auto_offset_reset": f"{_BY_THE_GROUP}share.auto.offset.reset=earliest",
    "isolation_level": f"{_BY_THE_GROUP}share.isolation.level=read_committed",
    "session_timeout_ms": f"{_BY_THE_GROUP}share.session.timeout.ms=45000",
    "heartbeat_interval_ms": f"{_BY_THE_GROUP}share.heartbeat.interval.ms=5000",
    "enable_auto_commit": "records are acknowledged, not committed: see share.acknowledgement.mode",
    "group_instance_id": "share groups have no static members",
    "group_protocol": "share groups have one protocol",
    "group_remote_assignor": "share groups have one assignor",
    "partition_assignment_strategy": "share groups have one assignor",
    "interceptor_classes": _JAVA,
}


def refusal(key: str, value: object, refused: dict[str, tuple[str, str]]) -> str | None:
    """Why a setting cannot have this value; None if nothing changes by it."""
    default, reason = refused[key]
    text = "" if value is None or value == [] or value == () else str(value)
    return None if text.lower() == default.lower() else reason
