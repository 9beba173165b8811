<?php
header('X-Made-By: PHP ' . PHP_MAJOR_VERSION . '.' . PHP_MINOR_VERSION);
?>
<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Hello from PHP</title><link rel="stylesheet" href="/style.css"></head>
<body><main>
  <h1>Hello from PHP <?= PHP_VERSION ?></h1>
  <p>Asked over <?= htmlspecialchars($_SERVER['SERVER_PROTOCOL']) ?> by <?= htmlspecialchars($_SERVER['REMOTE_ADDR']) ?>.</p>
  <form method="post"><input name="name" placeholder="Your name"> <button>Greet me</button></form>
  <?php if (isset($_POST['name'])): ?><p>Hello, <?= htmlspecialchars($_POST['name']) ?>!</p><?php endif ?>
</main></body>
</html>
